// Folders in the quantized forms of Hugging Face (tests/data/quantized, tests/reference/make_quantized_fixtures.py):
// their weights equal the weights of the libraries that define the forms, and their logits equal transformers'.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "gabbro/error.h"
#include "src/backend/registry.h"
#include "src/base/half.h"
#include "src/convert/convert.h"
#include "src/formats/checkpoint.h"
#include "src/formats/quant/quant.h"
#include "tests/llm/expected_logits.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

struct QuantizedForm {
  const char* folder;
  DType dtype;  // of its matrices
};

constexpr QuantizedForm kForms[] = {
    {"gptq", DType::q4_0},
    {"gptq_asymmetric", DType::int4_zp},
    {"gptq_act_order", DType::f16},
    {"gptq_8bit_v2", DType::q8_0},
    {"gptq_3bit", DType::q4_0},
    {"awq", DType::int4_zp},
    {"fp8_block", DType::fp8_e4m3},
    {"fp8_row", DType::fp8_e4m3},
    {"fp8_tensor_fnuz", DType::fp8_e4m3},
    {"bitsandbytes_nf4", DType::nf4},
    {"bitsandbytes_fp4", DType::bf16},
    {"bitsandbytes_int8", DType::int8_f32},
    {"compressed_int4", DType::q4_0},
    {"compressed_int4_asymmetric", DType::int4_zp},
    {"compressed_int8", DType::int8_f32},
    {"compressed_fp8", DType::fp8_e4m3},
    {"compressed_mxfp4", DType::mxfp4},
    {"compressed_nvfp4", DType::bf16},
    {"modelopt_nvfp4", DType::bf16},
};

std::string form_path(const std::string& name) { return GABBRO_SOURCE_DIR "/tests/data/quantized/" + name; }

constexpr const char* kKeyMatrix = "model.layers.0.self_attn.k_proj.weight";

std::vector<float> dequantized(const CheckpointTensor& tensor) {
  tensor.prepare();
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  dequantize_row(tensor.dtype(), tensor.data.data(), values.data(), tensor.elements());
  return values;
}

class QuantizedFolder : public testing::TestWithParam<QuantizedForm> {
 protected:
  std::string folder() const { return form_path(GetParam().folder); }
};
INSTANTIATE_TEST_SUITE_P(Forms, QuantizedFolder, testing::ValuesIn(kForms),
                         [](const auto& tested) { return std::string(tested.param.folder); });

// Scales are products of two f32 in some forms, so a value may be off by a unit in the last place or two. Weights that
// are dequantized at load are rounded to f16 or bf16.
TEST_P(QuantizedFolder, HasTheWeightsOfTheDefiningLibrary) {
  const Checkpoint checkpoint = Checkpoint::open(folder());
  const CheckpointTensor& tensor = checkpoint.require_tensor(kKeyMatrix);
  ASSERT_EQ(tensor.dtype(), GetParam().dtype);
  const safetensors::File file(folder() + "/expected.safetensors");
  const auto expected = values_of<float>(file, "k_proj");
  const double rounding = tensor.dtype() == DType::f16 ? 0x1p-11 : tensor.dtype() == DType::bf16 ? 0x1p-8 : 0x1p-22;
  for (int round = 0; round < 2; ++round) {  // once more after a release
    const std::vector<float> actual = dequantized(tensor);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], rounding * std::fabs(expected[i])) << "element " << i;
    }
    tensor.release();
  }
  EXPECT_EQ(checkpoint.notes().empty(), is_quantized(stored_form(tensor).dtype()));
}

TEST_P(QuantizedFolder, GivesTheLogitsOfTransformers) {
  const Checkpoint checkpoint = Checkpoint::open(folder());
  // Products take blocks whose columns are in another order as they are stored.
  const DType used = stored_form(checkpoint.require_tensor(kKeyMatrix)).dtype();
  expect_logits(folder(), read_expected(folder()), used);
}

// Its experts, which are stored transposed in bf16, have rows in MXFP4.
TEST(QuantizedExperts, GiveTheLogitsOfGptOss) {
  const std::string folder = form_path("gpt_oss");
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const CheckpointTensor& experts = checkpoint.require_tensor("model.layers.0.mlp.experts.down_proj");
  EXPECT_EQ(experts.dtype(), DType::mxfp4);
  const auto expected = values_of<float>(safetensors::File(folder + "/expected.safetensors"), "down_proj");
  EXPECT_EQ(dequantized(experts), expected);
  expect_logits(folder, read_expected(folder), DType::mxfp4);
  const std::string path = testing::TempDir() + "gpt-oss-" + std::to_string(::getpid()) + ".gguf";
  llm::convert(checkpoint, path, {.type = find_file_type("mxfp4"), .threads = 2});
  EXPECT_EQ(dequantized(Checkpoint::open(path).require_tensor("blk.0.ffn_down_exps.weight")), expected);
  fs::remove(path);
}

TEST(QuantizedExperts, OfOneTensorAreFp8) {
  const std::string folder = form_path("fp8_experts");
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const CheckpointTensor& experts = checkpoint.require_tensor("model.layers.0.mlp.experts.down_proj");
  EXPECT_EQ(experts.dtype(), DType::fp8_e4m3);
  EXPECT_EQ(experts.shape, (std::vector<int64_t>{3, 64, 64}));
  const auto expected = values_of<float>(safetensors::File(folder + "/expected.safetensors"), "down_proj");
  EXPECT_EQ(dequantized(experts), expected);
  expect_logits(folder, read_expected(folder), DType::fp8_e4m3);
}

TEST(QuantizedColumns, AreInTheOrderOfTheirGroups) {
  const Checkpoint checkpoint = Checkpoint::open(form_path("gptq_act_order"));
  const CheckpointTensor& tensor = checkpoint.require_tensor(kKeyMatrix);
  ASSERT_NE(tensor.ordered, nullptr);
  EXPECT_EQ(tensor.ordered->matrix.dtype(), DType::q4_0);
  const std::vector<float> plain = dequantized(tensor), ordered = dequantized(tensor.ordered->matrix);
  const std::vector<int32_t>& order = tensor.ordered->order;
  ASSERT_EQ(std::ssize(order), tensor.shape[1]);
  for (size_t i = 0; i < plain.size(); ++i) {
    const size_t row = i / order.size() * order.size();
    ASSERT_NEAR(plain[row + static_cast<size_t>(order[i - row])], ordered[i], 0x1p-11 * std::fabs(ordered[i]));
  }
}

// Formats that GGUF has are copied; the others are written in the format that is asked for.
TEST_P(QuantizedFolder, IsConvertedToGguf) {
  const std::string path = testing::TempDir() + "quantized-" + std::to_string(::getpid()) + ".gguf";
  const bool same = GetParam().dtype == DType::q4_0 || GetParam().dtype == DType::q8_0;
  const std::string_view type = same ? dtype_name(GetParam().dtype) : "f32";
  const Checkpoint source = Checkpoint::open(folder());
  llm::convert(source, path, {.type = find_file_type(type), .threads = 2});
  const Checkpoint converted = Checkpoint::open(path);
  const CheckpointTensor& values = converted.require_tensor("blk.0.attn_v.weight");
  EXPECT_EQ(values.dtype(), find_file_type(type)->base);
  EXPECT_EQ(dequantized(values), dequantized(source.require_tensor("model.layers.0.self_attn.v_proj.weight")));
  if (same) return void(fs::remove(path));
  expect_logits(path, read_expected(folder()), GetParam().dtype);
  fs::remove(path);
}

// A copy of a fixture whose tensors and configuration a test damages.
class Damaged {
 public:
  using Bytes = std::vector<std::byte>;
  struct Part {
    DType dtype;
    std::vector<int64_t> shape;
    Bytes data;
  };

  explicit Damaged(const std::string& form) : path_(testing::TempDir() + "damaged-" + std::to_string(::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
    for (const char* name : {"config.json", "quantize_config.json"}) {
      if (!fs::exists(form_path(form) + "/" + name)) continue;
      std::ifstream in(form_path(form) + "/" + name);
      config_name_ = name;
      config_.assign(std::istreambuf_iterator<char>(in), {});
      if (std::string_view(name) == "quantize_config.json")
        fs::copy_file(form_path(form) + "/config.json", path_ + "/config.json");
    }
    const safetensors::File file(form_path(form) + "/model.safetensors");
    for (const safetensors::TensorInfo& tensor : file.tensors())
      parts[tensor.name] = {tensor.dtype(), tensor.shape, {tensor.data.begin(), tensor.data.end()}};
  }
  ~Damaged() { fs::remove_all(path_); }

  void replace(const std::string& from, const std::string& to) {
    const size_t at = config_.find(from);
    ASSERT_NE(at, config_.npos) << from;
    config_.replace(at, from.size(), to);
  }

  std::string error() const {
    std::ofstream(path_ + "/" + config_name_) << config_;
    std::vector<safetensors::TensorData> tensors;
    for (const auto& [name, part] : parts) tensors.push_back({name, part.dtype, part.shape, part.data});
    safetensors::write(path_ + "/model.safetensors", tensors);
    try {
      const Checkpoint checkpoint = Checkpoint::open(path_);
      for (const CheckpointTensor& tensor : checkpoint.tensors()) tensor.prepare();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "no error";
  }

  std::map<std::string, Part> parts;

 private:
  std::string path_, config_, config_name_;
};

constexpr const char* kModule = "model.layers.0.self_attn.k_proj.";

std::string error_after(const std::string& form, const std::function<void(Damaged&)>& damage) {
  Damaged model(form);
  damage(model);
  return model.error();
}

void expect_error(const std::string& form, const std::vector<std::string>& words,
                  const std::function<void(Damaged&)>& damage) {
  const std::string error = error_after(form, damage);
  for (const std::string& word : words) EXPECT_NE(error.find(word), error.npos) << error << " has no " << word;
}

void shorten(Damaged& model, const std::string& name) {
  Damaged::Part& part = model.parts.at(kModule + name);
  part.data.resize(part.data.size() / static_cast<size_t>(part.shape[0]) * static_cast<size_t>(part.shape[0] - 1));
  --part.shape[0];
}

TEST(DamagedQuantizedFolder, NamesTheFieldOfAnUnknownMethod) {
  expect_error("awq", {"config.json", "quant_method", "'hqq'", "gptq"},
               [](Damaged& m) { m.replace("\"awq\"", "\"hqq\""); });
  expect_error("gptq", {"config.json", "bits 5"}, [](Damaged& m) { m.replace("\"bits\": 4", "\"bits\": 5"); });
  expect_error("gptq", {"config.json", "group_size"},
               [](Damaged& m) { m.replace("\"group_size\": 128", "\"group_size\": 0"); });
  expect_error("gptq_8bit_v2", {"checkpoint_format", "marlin"}, [](Damaged& m) { m.replace("gptq_v2", "marlin"); });
  expect_error("awq", {"version", "gemv"}, [](Damaged& m) { m.replace("\"gemm\"", "\"gemv\""); });
  expect_error("compressed_int4", {"format", "marlin-24"},
               [](Damaged& m) { m.replace("pack-quantized", "marlin-24"); });
}

TEST(DamagedQuantizedFolder, NamesTheTensor) {
  for (const char* name : {"qzeros", "scales", "g_idx"}) {
    expect_error("gptq_act_order", {"model.safetensors", kModule + std::string(name), "shape"},
                 [&](Damaged& m) { shorten(m, name); });
  }
  for (const char* name : {"qzeros", "scales"}) {
    expect_error("awq", {kModule + std::string(name), "is missing"},
                 [&](Damaged& m) { m.parts.erase(kModule + std::string(name)); });
  }
  expect_error("gptq_act_order", {"g_idx", "element 5 is group 99"}, [](Damaged& m) {
    const int32_t group = 99;
    std::memcpy(m.parts.at(kModule + std::string("g_idx")).data.data() + 5 * sizeof group, &group, sizeof group);
  });
  expect_error("bitsandbytes_int8", {"SCB", "is missing"},
               [](Damaged& m) { m.parts.erase(kModule + std::string("SCB")); });
  for (const char* name : {"absmax", "quant_map", "nested_absmax"}) {
    expect_error("bitsandbytes_nf4", {"weight." + std::string(name), "shape"},
                 [&](Damaged& m) { shorten(m, "weight." + std::string(name)); });
  }
  expect_error("bitsandbytes_nf4", {"quant_state", "shape"}, [](Damaged& m) {
    Damaged::Part& state = m.parts.at(kModule + std::string("weight.quant_state.bitsandbytes__nf4"));
    const std::string text = R"({"quant_type":"nf4","blocksize":64,"dtype":"float32","shape":[4096,1099511627776]})";
    state.data.assign(reinterpret_cast<const std::byte*>(text.data()),
                      reinterpret_cast<const std::byte*>(text.data()) + text.size());
    state.shape = {static_cast<int64_t>(text.size())};
  });
  expect_error("compressed_int4", {"weight_shape", "does not fit"}, [](Damaged& m) {
    const int64_t columns = int64_t{1} << 40;
    std::memcpy(m.parts.at(kModule + std::string("weight_shape")).data.data() + 8, &columns, sizeof columns);
  });
}

// The experts of gpt-oss; the first of two codes is in the low nibble (transformers/integrations/mxfp4.py).
TEST(QuantizedExperts, OfGptOssAreBlocksOfMxfp4) {
  const std::string path = testing::TempDir() + "gpt-oss-" + std::to_string(::getpid());
  fs::create_directories(path);
  std::ofstream(path + "/config.json") << R"({"quantization_config": {"quant_method": "mxfp4"}})";
  std::vector<std::byte> blocks(2 * 3 * 2 * 16), scales(2 * 3 * 2);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(37 * i + i / 16);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(120 + i);
  const std::vector<safetensors::TensorData> tensors = {{"x.down_proj_blocks", DType::u8, {2, 3, 2, 16}, blocks},
                                                        {"x.down_proj_scales", DType::u8, {2, 3, 2}, scales}};
  safetensors::write(path + "/model.safetensors", tensors);
  const Checkpoint checkpoint = Checkpoint::open(path);
  const CheckpointTensor& experts = checkpoint.require_tensor("x.down_proj");
  EXPECT_EQ(experts.shape, (std::vector<int64_t>{2, 3, 64}));
  const std::vector<float> values = dequantized(experts);
  constexpr float kLevels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (size_t i = 0; i < values.size(); ++i) {
    const int code = std::to_integer<int>(blocks[i / 2]) >> (i % 2 * 4) & 15;
    const float level = code < 8 ? kLevels[code] : -kLevels[code - 8];
    ASSERT_EQ(values[i], std::ldexp(level, static_cast<int>(i / 32) + 120 - 127)) << i;
  }
  fs::remove_all(path);
}

}  // namespace
}  // namespace gabbro
