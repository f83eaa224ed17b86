// Logits of a tiny model of each family, as transformers saves it, against transformers' (tests/data/families,
// tests/reference/make_family_fixtures.py), of a whole prompt and token by token.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <numeric>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/convert/convert.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GABBRO_SOURCE_DIR "/tests/data/families"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class FamilyLogits : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return GABBRO_SOURCE_DIR "/tests/data/families/" + GetParam(); }
};

TEST_P(FamilyLogits, InF32AreThoseOfTransformersForAPromptAndForCachedSteps) {
  expect_logits(in_f32(folder()), read_expected(folder()), DType::f32);
}

TEST_P(FamilyLogits, InBf16AreThoseOfTransformersForAPromptAndForCachedSteps) {
  expect_logits(folder(), read_expected(folder()), DType::bf16);
}

const double kToleranceF32 = f32_tolerance(7);  // layers, at most

// Rows of the logits of a prompt, and of a prompt that ends in steps of one token.
void expect_rows(const std::shared_ptr<Engine>& engine, const std::vector<int32_t>& ids,
                 const std::vector<int32_t>& rows, const std::vector<float>& expected, double tolerance) {
  const size_t v = expected.size() / rows.size();
  constexpr size_t kSteps = 8;
  const size_t before = ids.size() - kSteps;
  Session prompt(engine), steps(engine);
  const std::span<const float> at_once = prompt.append_all_logits(ids);
  const std::span<const float> first = steps.append_all_logits(std::span(ids).first(before));
  std::vector<float> logits(first.begin(), first.end());
  for (size_t i = before; i < ids.size(); ++i) {
    const std::span<const float> one = steps.append(std::span(ids).subspan(i, 1));
    logits.insert(logits.end(), one.begin(), one.end());
  }
  const auto vocabulary = static_cast<int64_t>(v);
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> row = std::span(expected).subspan(i * v, v);
    const size_t at = static_cast<size_t>(rows[i]) * v;
    expect_near(at_once.subspan(at, v), row, vocabulary, tolerance, fmt::format("prompt, row {}", rows[i]));
    expect_near(std::span(logits).subspan(at, v), row, vocabulary, tolerance, fmt::format("steps, row {}", rows[i]));
  }
}

TEST_P(FamilyLogits, WithKeysAndValuesInF32AreThoseOfTransformersInF32) {
  const safetensors::File file(GABBRO_SOURCE_DIR "/tests/data/llm/family_logits_f32.safetensors");
  const auto engine = Engine::load(in_f32(folder()), {.threads = 2, .kv_type = DType::f32});
  EXPECT_EQ(engine->facts().kv_type, DType::f32);
  expect_rows(engine, read_expected(folder()).ids, values_of<int32_t>(file, "rows"), values_of<float>(file, GetParam()),
              kToleranceF32);
}

// At one of these tokens two experts are nearly tied, and f16 keys and values choose the other.
TEST(MixtralRouter, ChoosesTheExpertsOfTransformersWithKeysAndValuesInF32) {
  const safetensors::File file(GABBRO_SOURCE_DIR "/tests/data/llm/family_logits_f32.safetensors");
  const auto ids = values_of<int32_t>(file, "flip.ids");
  const auto expected = values_of<float>(file, "flip.logits");
  const std::string folder = in_f32(family_folder("mixtral"));
  std::vector<int32_t> rows(ids.size());
  std::iota(rows.begin(), rows.end(), 0);
  expect_rows(Engine::load(folder, {.threads = 2, .kv_type = DType::f32}), ids, rows, expected, kToleranceF32);
}

std::vector<float> logits_of(const std::string& path, const Expected& expected) {
  Session session(Engine::load(path, {.threads = 2}));
  const std::span<const float> logits = session.append_all_logits(expected.ids);
  return {logits.begin(), logits.end()};
}

// The GGUF file of a folder holds the same numbers, under its own names and in its own order.
TEST_P(FamilyLogits, AreTheSameToTheBitFromTheConvertedFile) {
  const Expected expected = read_expected(folder());
  const std::string path = testing::TempDir() + "family-" + std::to_string(::getpid()) + ".gguf";
  for (const char* type : {"f32", "bf16"}) {
    llm::convert(Checkpoint::open(folder()), path, {.type = find_file_type(std::string_view(type)), .threads = 2});
    const std::string source = std::string_view(type) == "f32" ? in_f32(folder()) : folder();
    EXPECT_EQ(logits_of(path, expected), logits_of(source, expected)) << type;
  }
  fs::remove(path);
}

// Rows of keys and of values of all heads in one matrix [H · (N + V), rank], of k_b [H, rank, N] and v_b [H, V, rank].
std::vector<float> joined_heads(const CheckpointTensor& k_b, const CheckpointTensor& v_b) {
  const int64_t heads = k_b.shape[0], rank = k_b.shape[1], n = k_b.shape[2], v = v_b.shape[1];
  const auto* keys = reinterpret_cast<const float*>(k_b.data.data());
  const auto* values = reinterpret_cast<const float*>(v_b.data.data());
  std::vector<float> joined;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t i = 0; i < rank; ++i) joined.push_back(keys[(h * rank + i) * n + row]);
    }
    joined.insert(joined.end(), values + h * v * rank, values + (h + 1) * v * rank);
  }
  return joined;
}

// A file as llama.cpp wrote them before April 2025: attn_kv_b instead of attn_k_b and attn_v_b, and the sizes of heads
// in the usual fields.
void write_early_deepseek(const std::string& from, const std::string& to) {
  const Checkpoint file = Checkpoint::open(from);
  gguf::Writer writer;
  const std::string attention = "deepseek2.attention.";
  for (const MetadataField& field : file.metadata().fields()) {
    const std::string key(field.key);
    if (key == attention + "key_length" || key == attention + "value_length") continue;
    const bool of_heads = key == attention + "key_length_mla" || key == attention + "value_length_mla";
    writer.add_value(of_heads ? key.substr(0, key.size() - 4) : key, *field.value.gguf());
  }
  std::deque<std::vector<float>> joined;
  for (const CheckpointTensor& tensor : file.tensors()) {
    const std::string name(tensor.name);
    const size_t at = name.find("attn_k_b");
    if (name.find("attn_v_b") != name.npos) continue;
    if (at == name.npos) {
      writer.add_tensor(name, gguf::ggml_type_number(tensor.dtype()), tensor.shape, tensor.data);
      continue;
    }
    const std::string prefix = name.substr(0, at);
    const CheckpointTensor& v_b = file.require_tensor(prefix + "attn_v_b.weight");
    const auto& values = joined.emplace_back(joined_heads(tensor, v_b));
    const int64_t rank = tensor.shape[1], shape[] = {std::ssize(values) / rank, rank};
    writer.add_tensor(prefix + "attn_kv_b.weight", gguf::ggml_type_number(DType::f32), shape,
                      std::as_bytes(std::span(values)));
  }
  writer.write(to);
}

TEST(EarlyDeepSeekFile, GivesTheSameLogitsToTheBit) {
  const std::string folder = GABBRO_SOURCE_DIR "/tests/data/families/deepseek_v2";
  const Expected expected = read_expected(folder);
  const std::string base = testing::TempDir() + "deepseek-" + std::to_string(::getpid());
  llm::convert(Checkpoint::open(folder), base + ".gguf",
               {.type = find_file_type(std::string_view("f32")), .threads = 1});
  write_early_deepseek(base + ".gguf", base + "-early.gguf");
  EXPECT_EQ(logits_of(base + "-early.gguf", expected), logits_of(base + ".gguf", expected));
  fs::remove(base + ".gguf");
  fs::remove(base + "-early.gguf");
}

// Mixtures of experts whose experts the fixtures have each in a tensor, and their names in transformers 5 where these
// differ.
struct MixedFamily {
  const char* name;
  std::vector<std::pair<std::string, std::string>> renamed{};
};
const MixedFamily kMixedFamilies[] = {
    {"deepseek_v3"},
    {"dots1"},
    {"ernie4_5_moe", {{".mlp.moe_statics.", ".mlp.gate.moe_statics."}}},
    {"glm4_moe"},
    {"hunyuan_v1_moe"},
    {"lfm2_moe"},
    {"minimax_m2", {{".block_sparse_moe.", ".mlp."}}},
    {"mixtral", {{".block_sparse_moe.", ".mlp."}}},
    {"olmoe"},
    {"phimoe", {{".block_sparse_moe.gate.", ".mlp.router."}, {".block_sparse_moe.", ".mlp."}}},
    {"qwen2_moe"},
    {"qwen3_moe"},
};

class FusedExperts : public testing::TestWithParam<MixedFamily> {};

// The tensors of a folder as transformers 5 holds them: experts.gate_up_proj [E, 2F, C] and experts.down_proj [E, C,
// F].
class FusedFolder {
 public:
  FusedFolder(const std::string& folder, const MixedFamily& family) : file_(folder + "/model.safetensors") {
    for (const safetensors::TensorInfo& tensor : file_.tensors()) {
      std::string name(tensor.name);
      for (const auto& [theirs, ours] : family.renamed) {
        if (const size_t at = name.find(theirs); at != name.npos) name.replace(at, theirs.size(), ours);
      }
      const size_t at = name.find(".experts.0.");
      if (at != name.npos) fuse(std::string(tensor.name), name.substr(0, at));
      if (name.find(".experts.") == name.npos) tensors_.push_back({name, tensor.dtype(), tensor.shape, tensor.data});
    }
    path_ = with_config(folder);
    safetensors::write((path_ / "model.safetensors").string(), tensors_);
  }

  std::string path() const { return path_.string(); }

 private:
  // `first` is the tensor of expert 0 as the file calls it.
  void fuse(const std::string& first, const std::string& prefix) {
    const bool is_gate = first.ends_with("gate_proj.weight") || first.ends_with(".w1.weight");
    const bool is_down = first.ends_with("down_proj.weight") || first.ends_with(".w2.weight");
    if (!is_gate && !is_down) return;  // rows of `up` come with `gate`
    auto& bytes = bytes_.emplace_back();
    int64_t experts = 0;
    const safetensors::TensorInfo* tensor = file_.tensor(first);
    const std::vector<int64_t> each = tensor->shape;
    for (; tensor != nullptr; tensor = file_.tensor(numbered(first, ++experts))) {
      bytes.insert(bytes.end(), tensor->data.begin(), tensor->data.end());
      if (!is_gate) continue;
      std::string up = numbered(first, experts);
      const bool named = up.ends_with("gate_proj.weight");
      up.replace(up.rfind(named ? "gate_proj" : ".w1"), named ? 9 : 3, named ? "up_proj" : ".w3");
      const safetensors::TensorInfo* const other = file_.tensor(up);
      bytes.insert(bytes.end(), other->data.begin(), other->data.end());
    }
    tensors_.push_back({prefix + (is_gate ? ".experts.gate_up_proj" : ".experts.down_proj"),
                        DType::bf16,
                        {experts, is_gate ? 2 * each[0] : each[0], each[1]},
                        bytes});
  }

  static std::string numbered(std::string name, int64_t expert) {
    const std::string zero = ".experts.0.";
    return name.replace(name.find(zero), zero.size(), ".experts." + std::to_string(expert) + ".");
  }

  safetensors::File file_;
  fs::path path_;
  std::deque<std::vector<std::byte>> bytes_;
  std::vector<safetensors::TensorData> tensors_;
};

TEST_P(FusedExperts, GiveTheSameLogitsToTheBit) {
  const std::string folder = std::string(GABBRO_SOURCE_DIR "/tests/data/families/") + GetParam().name;
  const Expected expected = read_expected(folder);
  const FusedFolder fused(folder, GetParam());
  EXPECT_EQ(logits_of(fused.path(), expected), logits_of(folder, expected));
}

INSTANTIATE_TEST_SUITE_P(All, FusedExperts, testing::ValuesIn(kMixedFamilies),
                         [](const auto& tested) { return std::string(tested.param.name); });

INSTANTIATE_TEST_SUITE_P(All, FamilyLogits, testing::ValuesIn(families()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace gabbro
