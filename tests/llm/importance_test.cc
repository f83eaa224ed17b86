// Importance matrices: mean squares of inputs against those that torch computes (tests/data/importance,
// tests/reference/make_importance_fixtures.py), their use by a conversion, and files that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gabbro/error.h"
#include "src/convert/convert.h"
#include "src/formats/quant/quant.h"
#include "src/models/weights/input_squares.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

using testing::HasSubstr;

std::string importance_file(const std::string& name) {
  return testing::TempDir() + "importance-" + std::to_string(::getpid()) + name;
}

ImportanceMatrix compute_importance(const std::string& folder, const std::vector<int32_t>& ids, int times) {
  const auto observer = std::make_shared<llm::InputSquares>();
  Session session(Engine::load(folder, {.threads = 2, .observer = observer}));
  for (int i = 0; i < times; ++i) {
    session.truncate(0);
    session.append_all_logits(ids);
  }
  return observer->result();
}

class ImportanceOf : public testing::TestWithParam<const char*> {};

TEST_P(ImportanceOf, MatricesAndExpertsIsThatOfTorch) {
  const safetensors::File expected(GABBRO_SOURCE_DIR "/tests/data/importance/" + std::string(GetParam()) +
                                   ".safetensors");
  const auto ids = values_of<int32_t>(expected, "ids");
  const ImportanceMatrix matrix = compute_importance(in_f32(family_folder(GetParam())), ids, 2);
  EXPECT_EQ(2 * matrix.entries.size() + 1, expected.tensors().size());
  for (const auto& [name, entry] : matrix.entries) {
    const auto sums = values_of<float>(expected, name + ".in_sum2"),
               counts = values_of<float>(expected, name + ".counts");
    ASSERT_EQ(entry.sums.size(), sums.size()) << name;
    ASSERT_EQ(entry.counts.size(), counts.size()) << name;
    for (size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(entry.counts[i], 2 * counts[i]) << name << " " << i;
    const float largest = *std::ranges::max_element(sums);
    // Activations differ by some 2^-13 of their size, keys and values being f16.
    for (size_t i = 0; i < sums.size(); ++i)
      EXPECT_NEAR(entry.sums[i], 2 * sums[i], 0x1p-10 * (sums[i] + 0.01f * largest)) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ImportanceOf, testing::Values("llama", "mixtral", "qwen2_moe"),
                         [](const auto& tested) { return std::string(tested.param); });

ImportanceMatrix small_matrix() {
  ImportanceMatrix matrix;
  matrix.entries["blk.0.attn_q.weight"] = {.columns = 3, .sums = {2, 4, 6}, .counts = {2}};
  matrix.entries["blk.0.ffn_up_exps.weight"] = {.columns = 2, .sums = {3, 6, 0, 0}, .counts = {3, 0}};
  matrix.datasets = {"text.txt"};
  matrix.chunks = 7;
  matrix.chunk_tokens = 512;
  return matrix;
}

TEST(ImportanceFile, IsReadAsItWasWritten) {
  const std::string path = importance_file(".gguf");
  small_matrix().write(path);
  const ImportanceMatrix read = ImportanceMatrix::read(path);
  EXPECT_EQ(read.datasets, std::vector<std::string>{"text.txt"});
  EXPECT_EQ(read.chunks, 7u);
  EXPECT_EQ(read.chunk_tokens, 512u);
  EXPECT_EQ(read.digest(), small_matrix().digest());
  EXPECT_EQ(read.weights("blk.0.attn_q.weight", 1, 3, path), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(read.weights("blk.0.ffn_up_exps.weight", 2, 2, path), (std::vector<float>{1, 2, 1, 1}));
  EXPECT_TRUE(read.weights("blk.1.attn_q.weight", 1, 3, path).empty());
  EXPECT_THROW(read.weights("blk.0.attn_q.weight", 1, 4, path), Error);
  std::filesystem::remove(path);
}

// llama.cpp's older form: entries of (length, name, calls, number of values, values times calls), chunks, dataset.
std::string dat_file(int32_t calls, const std::vector<float>& values, bool with_end) {
  std::string bytes;
  const auto put = [&](int32_t number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  const std::string name = "blk.0.attn_q.weight";
  put(1);
  put(static_cast<int32_t>(name.size()));
  bytes += name;
  put(calls);
  put(static_cast<int32_t>(values.size()));
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  if (!with_end) return bytes;
  put(5);
  put(4);
  return bytes + "text";
}

ImportanceMatrix read_bytes(const std::string& bytes) {
  const std::string path = importance_file(".dat");
  std::ofstream(path, std::ios::binary) << bytes;
  return ImportanceMatrix::read(path);
}

TEST(ImportanceFile, OfTheOlderFormIsRead) {
  const ImportanceMatrix matrix = read_bytes(dat_file(4, {4, 8}, true));
  EXPECT_EQ(matrix.weights("blk.0.attn_q.weight", 1, 2, "x"), (std::vector<float>{1, 2}));
  EXPECT_EQ(matrix.weights("blk.0.attn_q.weight", 2, 1, "x"), (std::vector<float>{1, 2}));  // of two experts
  EXPECT_EQ(matrix.chunks, 5u);
  EXPECT_EQ(matrix.datasets, std::vector<std::string>{"text"});
  EXPECT_EQ(read_bytes(dat_file(0, {4, 8}, false)).weights("blk.0.attn_q.weight", 1, 2, "x"),
            (std::vector<float>{4, 8}));
}

std::string error_of_importance(const std::string& bytes) {
  try {
    read_bytes(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("importance-"));
    return error.what();
  }
  return "(no error)";
}

TEST(ImportanceFile, ThatIsWrongIsRefused) {
  const std::string whole = dat_file(4, {4, 8}, true);
  EXPECT_THAT(error_of_importance(dat_file(4, {4, NAN}, true)), HasSubstr("not numbers"));
  EXPECT_THAT(error_of_importance(dat_file(4, {4, -1}, true)), HasSubstr("not numbers"));
  EXPECT_THAT(error_of_importance("text that is not a matrix"), HasSubstr("not an importance matrix"));
  for (size_t size = 1; size < whole.size(); ++size) {
    if (size == dat_file(4, {4, 8}, false).size() || size == whole.size() - 8) continue;  // these may end there
    EXPECT_NE(error_of_importance(whole.substr(0, size)), "(no error)") << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xff);
    error_of_importance(damaged);
  }
  ImportanceMatrix broken = small_matrix();
  broken.entries["blk.0.attn_q.weight"].counts = {2, 2};
  broken.entries["blk.0.attn_q.weight"].columns = 1;
  broken.entries["blk.0.attn_q.weight"].sums = {2, 4};
  const std::string path = importance_file(".gguf");
  broken.write(path);
  EXPECT_THROW(ImportanceMatrix::read(path).weights("blk.0.attn_q.weight", 1, 3, path), Error);
  std::filesystem::remove(path);
  std::filesystem::remove(importance_file(".dat"));
}

// The weighted error becomes smaller.
TEST(Importance, WeightsTheErrorsOfAConversion) {
  const std::string folder = family_folder("qwen3");  // has rows of 64 columns
  ImportanceMatrix matrix;
  std::vector<float> sums(64, 0.01f);
  for (size_t i = 0; i < 64; i += 9) sums[i] = 100;
  const std::string name = "blk.1.attn_output.weight";
  matrix.entries[name] = {.columns = 64, .sums = sums, .counts = {1}};
  const Checkpoint source = Checkpoint::open(folder);
  const auto error_with = [&](const ImportanceMatrix* importance) {
    const std::string path = importance_file("-quantized.gguf");
    llm::convert(source, path,
                 {.type = find_file_type(std::string_view("q4_0")), .threads = 2, .importance = importance});
    const Checkpoint result = Checkpoint::open(path);
    const CheckpointTensor& quantized = result.require_tensor(name);
    const CheckpointTensor& original = source.require_tensor("model.layers.1.self_attn.o_proj.weight");
    const auto count = static_cast<size_t>(original.elements());
    std::vector<float> before(count), after(count);
    dequantize_row(original.dtype(), original.data.data(), before.data(), original.elements());
    dequantize_row(quantized.dtype(), quantized.data.data(), after.data(), quantized.elements());
    double error = 0;
    for (size_t i = 0; i < count; ++i)
      error += static_cast<double>(sums[i % 64]) * (before[i] - after[i]) * (before[i] - after[i]);
    EXPECT_EQ(result.metadata().u32_or("quantize.imatrix.entries_count", 0), importance != nullptr ? 1u : 0u);
    std::filesystem::remove(path);
    return error;
  };
  EXPECT_LT(error_with(&matrix), 0.8 * error_with(nullptr));
  matrix.entries[name].columns = 32;
  matrix.entries[name].sums.resize(32);
  EXPECT_THROW(error_with(&matrix), Error);
}

}  // namespace
}  // namespace gabbro
