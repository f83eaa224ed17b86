#include "src/models/llm/model_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "src/base/error.h"
#include "src/formats/quant/finite.h"
#include "src/models/llm/decoder_config.h"

namespace gabbro::llm {
namespace {

using testing::HasSubstr;

struct Sizes {
  int64_t parameters = 0;
  uint64_t bytes = 0;
  std::map<std::string, int> formats;
};

Sizes sizes_of(const std::string& shape, const std::string& type) {
  Sizes sizes;
  for (const PlannedTensor& tensor : planned_tensors(plan_of(parse_blueprint(shape)), *find_file_type(type))) {
    if (tensor.name != "rope_freqs.weight") sizes.parameters += tensor.elements();
    sizes.bytes += tensor.bytes();
    ++sizes.formats[std::string(dtype_name(tensor.dtype))];
  }
  return sizes;
}

std::string family_name(const Blueprint& shape) {
  return std::string(Checkpoint::of_config(shape.name, shape.config, {}).metadata().require_string("model_type"));
}

double gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

// As the models' own pages on Hugging Face count them.
TEST(Blueprint, PublishedNumbersOfParameters) {
  EXPECT_EQ(sizes_of("llama-1b", "f16").parameters, 1235814400);
  EXPECT_EQ(sizes_of("llama-3b", "f16").parameters, 3212749824);
  EXPECT_EQ(sizes_of("llama-8b", "f16").parameters, 8030261248);
  EXPECT_EQ(sizes_of("llama-70b", "f16").parameters, 70553706496);
  EXPECT_EQ(sizes_of("llama-7b", "f16").parameters, 6738415616);
  EXPECT_EQ(sizes_of("llama-13b", "f16").parameters, 13015864320);
  EXPECT_EQ(sizes_of("llama-34b", "f16").parameters, 33743970304);
  EXPECT_EQ(sizes_of("llama-65b", "f16").parameters, 65285660672);
  EXPECT_EQ(sizes_of("llama-405b", "f16").parameters, 405853388800);
}

TEST(Blueprint, PublishedConfigurationsHaveTheirNumberOfParameters) {
  for (const Blueprint& shape : published_configs()) {
    EXPECT_NEAR(static_cast<double>(sizes_of(shape.name, "f16").parameters) / shape.parameters, 1, 0.01) << shape.name;
    EXPECT_EQ(published_of_size(family_name(shape), shape.parameters)->parameters, shape.parameters) << shape.name;
  }
  EXPECT_EQ(published_of_size("gpt-oss", 20e9)->name, "gpt-oss-20b");
  EXPECT_EQ(published_of_size("qwen3moe", 30e9)->name, "qwen3-30b-a3b");
  EXPECT_EQ(published_of_size("qwen3moe", 50e9), nullptr);
  EXPECT_EQ(published_of_size("llama", 46.7e9), nullptr);
  EXPECT_EQ(parse_blueprint("Qwen3-30B-A3B").name, "qwen3-30b-a3b");
}

// The file of random weights says what the config.json says: its family asks for the same tensors, and no others are
// in it.
TEST(Blueprint, FilesOfPublishedConfigurations) {
  for (const Blueprint& shape : published_configs()) {
    const ModelPlan published = plan_of(shape);
    const Checkpoint file = random_checkpoint(shape, *find_file_type("iq1_s"), 1);
    const ModelPlan plan = plan_of(file);
    std::map<std::string, std::vector<int64_t>> wanted, found, stored;
    for (const RequestedTensor& tensor : published.tensors) wanted[tensor.name] = tensor.shape;
    for (const RequestedTensor& tensor : plan.tensors) found[tensor.name] = tensor.shape;
    for (const CheckpointTensor& tensor : file.tensors()) stored[std::string(tensor.name)] = tensor.shape;
    EXPECT_EQ(found, wanted) << shape.name;
    EXPECT_EQ(stored, wanted) << shape.name;
    EXPECT_EQ(plan.sizes.experts, published.sizes.experts) << shape.name;
    EXPECT_EQ(plan.sizes.experts_used, published.sizes.experts_used) << shape.name;
    EXPECT_EQ(plan.sizes.context_trained, published.sizes.context_trained) << shape.name;
    EXPECT_EQ(plan.cache.size(), published.cache.size()) << shape.name;
    EXPECT_EQ(plan.tied, published.tied) << shape.name;
    EXPECT_EQ(plan.name, shape.name);
  }
}

TEST(Blueprint, AnySizeHasItsNumberOfParameters) {
  for (double parameters = 1e7; parameters <= 2e12; parameters *= 1.13) {
    const Blueprint shape = blueprint_of_size(parameters);
    int64_t found = 0;
    for (const PlannedTensor& tensor : planned_tensors(plan_of(shape), *find_file_type("f16")))
      found += tensor.elements();
    EXPECT_NEAR(static_cast<double>(found) / parameters, 1, 0.02) << shape.name;
    EXPECT_EQ(shape.sizes.heads % shape.sizes.kv_heads, 0) << shape.name;
  }
  EXPECT_EQ(blueprint_of_size(8e9).sizes.feed_forward, 14336);  // a published size has the published shape
}

TEST(Blueprint, NumbersOfParameters) {
  EXPECT_EQ(parse_parameter_count("8B"), 8e9);
  EXPECT_EQ(parse_parameter_count("3.5b"), 3.5e9);
  EXPECT_EQ(parse_parameter_count("350M"), 350e6);
  for (const char* text : {"", "8", "B", "0B", "-8B", "1e9B", "nanB", "infB", "9M", "3T", "8BB", "0x8B", "8 B", "+8B"})
    EXPECT_EQ(parse_parameter_count(text), std::nullopt) << text;
}

// Llama 3.1 8B in each type: tools/quantize/README.md of llama.cpp, rounded to 0.01 GiB there.
TEST(Blueprint, PublishedSizesOfTheMixtures) {
  const std::pair<const char*, double> kPublished[] = {
      {"q2_k_s", 2.78}, {"q2_k", 2.95},    {"q3_k_s", 3.41}, {"q3_k_l", 4.02},  {"iq4_xs", 4.17}, {"iq4_nl", 4.38},
      {"q4_k_s", 4.36}, {"q4_k_m", 4.58},  {"q5_k_s", 5.21}, {"q5_k_m", 5.33},  {"q6_k", 6.14},   {"q8_0", 7.95},
      {"f16", 14.96},   {"iq1_s", 1.87},   {"iq1_m", 2.01},  {"iq2_xxs", 2.23}, {"iq2_xs", 2.42}, {"iq2_s", 2.56},
      {"iq2_m", 2.74},  {"iq3_xxs", 3.04}, {"iq3_xs", 3.27}, {"iq3_s", 3.42},   {"iq3_m", 3.52},
  };
  for (const auto& [type, size] : kPublished) {
    EXPECT_NEAR(gib(sizes_of("llama-8b", type).bytes), size, 0.0051) << type;
  }
  EXPECT_NEAR(gib(sizes_of("llama-1b", "q4_k_m").bytes) * 1024, 763, 0.5);  // llama-bench, as are the next
  EXPECT_NEAR(gib(sizes_of("llama-1b", "f16").bytes), 2.30, 0.005);
  EXPECT_NEAR(gib(sizes_of("llama-70b", "q4_k_m").bytes), 39.59, 0.005);
}

// SmolLM2-135M as llama-quantize makes it; its rows of 576 are not a multiple of 256, the block size.
TEST(Blueprint, TheMixturesOfAModelWithOddRows) {
  const std::string smol =
      "layers=30,embedding=576,heads=9,kv-heads=3,head-dimension=64,feed-forward=1536,vocabulary=49152,tied=1";
  using Formats = std::map<std::string, int>;
  const auto expect = [&](const char* type, const Formats& formats, uint64_t bytes) {
    const Sizes sizes = sizes_of(smol, type);
    EXPECT_EQ(sizes.formats, formats) << type;
    EXPECT_EQ(sizes.bytes, bytes) << type;
    EXPECT_EQ(sizes.parameters, 134515008);
  };
  expect("q2_k", {{"q4_0", 180}, {"f32", 61}, {"q3_k", 30}, {"q8_0", 1}}, 86416128);
  expect("q3_k_m", {{"q4_0", 120}, {"f32", 61}, {"q5_0", 58}, {"q4_k", 29}, {"q5_1", 2}, {"q8_0", 1}, {"q5_k", 1}},
         91724544);
  expect("q4_k_m", {{"q5_0", 166}, {"f32", 61}, {"q4_k", 16}, {"q8_0", 15}, {"q6_k", 14}}, 103668480);
  expect("q5_k_m", {{"q5_1", 166}, {"f32", 61}, {"q5_k", 16}, {"q8_0", 15}, {"q6_k", 14}}, 110317824);
  expect("iq4_xs", {{"iq4_nl", 180}, {"f32", 61}, {"iq4_xs", 27}, {"q5_k", 3}, {"q8_0", 1}}, 89526528);
  expect("iq4_nl", {{"iq4_nl", 207}, {"f32", 61}, {"q5_k", 3}, {"q8_0", 1}}, 90273024);
  expect("q6_k", {{"q8_0", 181}, {"f32", 61}, {"q6_k", 30}}, 136597248);
  expect("q4_0", {{"q4_0", 210}, {"f32", 61}, {"q8_0", 1}}, 89941248);
  expect("bf16", {{"bf16", 211}, {"f32", 61}}, 269100288);
}

TEST(Blueprint, SizesInAText) {
  const Blueprint shape = parse_blueprint("layers=2,embedding=64,heads=4");
  EXPECT_EQ(shape.sizes.kv_heads, 4);
  EXPECT_EQ(shape.sizes.head_dimension, 16);
  EXPECT_EQ(shape.sizes.feed_forward, 256);
  EXPECT_EQ(shape.sizes.vocabulary, 32000);
  EXPECT_EQ(shape.sizes.context_trained, 4096);
  EXPECT_FALSE(shape.tied);
  const Blueprint other = parse_blueprint(
      "tied=1,layers=3,embedding=96,heads=6,kv-heads=2,head-dimension=32,feed-forward=7,vocabulary=11,context=13");
  EXPECT_TRUE(other.tied);
  EXPECT_EQ(other.sizes.kv_heads, 2);
  EXPECT_EQ(other.sizes.head_dimension, 32);
  EXPECT_EQ(other.sizes.feed_forward, 7);
  EXPECT_EQ(other.sizes.vocabulary, 11);
  EXPECT_EQ(other.sizes.context_trained, 13);
}

TEST(Blueprint, TextsThatAreNoShape) {
  const std::pair<const char*, const char*> kBad[] = {
      {"", "neither a known shape"},
      {"llama-9b", "neither a known shape"},
      {"layers=2,embedding=64", "layers, embedding and heads are needed"},
      {"layers=2,embedding=64,heads=3", "3 heads do not divide"},
      {"layers=2,embedding=64,heads=4,kv-heads=3", "3 kv-heads do not divide"},
      {"layers=2,embedding=64,heads=64", "head-dimension of 1 is not even"},
      {"layers=0,embedding=64,heads=4", "layers is '0'"},
      {"layers=-1,embedding=64,heads=4", "layers is '-1'"},
      {"layers=2,embedding=,heads=4", "embedding is ''"},
      {"layers=2,embedding=6x,heads=4", "embedding is '6x'"},
      {"layers=99999999999999999999,embedding=64,heads=4", "layers is"},
      {"layers=5000,embedding=64,heads=4", "up to 4096"},
      {"layers=2,layers=2,embedding=64,heads=4", "layers is there twice"},
      {"layers=2,embedding=64,heads=4,experts=2,experts-used=3", "3 experts-used are more than the 2 experts"},
      {"layers=2,embedding=64,heads=4,", "neither a known shape"},
      {"layers=2,embedding=64,heads=4,tied=2", "tied is '2'"},
  };
  for (const auto& [text, message] : kBad) {
    try {
      parse_blueprint(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  }
}

// Read back by the reader of files, it is the shape that it was made from.
TEST(RandomCheckpoint, IsReadAsAnyFileIs) {
  for (const char* text : {"llama-1b", "llama-70b", "layers=2,embedding=64,heads=4,kv-heads=2,vocabulary=300"}) {
    const Blueprint shape = parse_blueprint(text);
    const Checkpoint file = random_checkpoint(shape, *find_file_type("q4_k_m"), 1);
    const DecoderConfig config = read_decoder_config(ConfigReader(file), kDecoderNames);
    const ModelPlan read = plan_of(file);
    EXPECT_EQ(read.tied, shape.tied);
    EXPECT_EQ(read.sizes.layers, shape.sizes.layers);
    EXPECT_EQ(read.sizes.embedding, shape.sizes.embedding);
    EXPECT_EQ(read.sizes.heads, shape.sizes.heads);
    EXPECT_EQ(read.sizes.kv_heads, shape.sizes.kv_heads);
    EXPECT_EQ(read.sizes.head_dimension, shape.sizes.head_dimension);
    EXPECT_EQ(read.sizes.feed_forward, shape.sizes.feed_forward);
    EXPECT_EQ(read.sizes.vocabulary, shape.sizes.vocabulary);
    EXPECT_EQ(read.sizes.context_trained, shape.sizes.context_trained);
    EXPECT_EQ(config.rope.base, shape.rope_base);
  }
}

// transformers' _compute_llama3_parameters: the divisors of base 500000, 8192 tokens, low 1 and high 4.
TEST(RandomCheckpoint, RotaryFrequenciesAreStretchedAsPublished) {
  const auto divisors = [](const char* shape) {
    const Checkpoint file = random_checkpoint(parse_blueprint(shape), *find_file_type("q4_0"), 1);
    const CheckpointTensor& tensor = file.require_tensor("rope_freqs.weight");
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  };
  const std::vector<float> large = divisors("llama-8b"), small = divisors("llama-1b");
  ASSERT_EQ(large.size(), 64u);
  ASSERT_EQ(small.size(), 32u);
  const std::pair<int, float> kLarge[] = {{0, 1.0f},         {28, 1.0f},        {29, 1.20748387f}, {30, 1.55341463f},
                                          {32, 2.69452969f}, {34, 5.25732659f}, {35, 8.0f},        {63, 8.0f}};
  const std::pair<int, float> kSmall[] = {
      {14, 1.0f}, {15, 1.65132925f}, {16, 3.2922621f}, {17, 9.66672898f}, {18, 32.0f}};
  for (const auto& [i, value] : kLarge) EXPECT_NEAR(large[static_cast<size_t>(i)], value, 1e-6f * value) << i;
  for (const auto& [i, value] : kSmall) EXPECT_NEAR(small[static_cast<size_t>(i)], value, 1e-6f * value) << i;
}

}  // namespace
}  // namespace gabbro::llm
