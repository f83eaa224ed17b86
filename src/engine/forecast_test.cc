#include "src/engine/forecast.h"

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace gabbro {
namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

Workload workload(const char* shape, const char* type, int64_t context) {
  Workload w{.plan = llm::plan_of(llm::parse_blueprint(shape))};
  w.needs = needs_of(w.plan, *find_file_type(type));
  w.context = context;
  return w;
}

// Llama 3.1 8B: 32 layers, 8 heads of 128, keys and values. f16 takes 2 bytes, q8_0 34 for 32.
TEST(ModelNeeds, KeysAndValuesByHand) {
  const Workload w = workload("llama-8b", "q4_k_m", 8192);
  EXPECT_EQ(kv_bytes_per_token(w.needs, DType::f16), 131072u);
  EXPECT_EQ(kv_bytes_per_token(w.needs, DType::q8_0), 69632u);
  EXPECT_EQ(w.kv_bytes(), kGib);
  EXPECT_EQ(kv_bytes(w.needs, DType::f16, {.context = 1}), 64u * 131072);  // a page
  EXPECT_EQ(kv_bytes(w.needs, DType::f16, {.context = 65}), 128u * 131072);
}

TEST(ModelNeeds, HipKeepsASpare) {
  abi::DeviceFacts facts{.memory_free = kGib};
  const auto plannable = [&](const std::string& id, uint64_t free) {
    facts.memory_free = free;
    id.copy(facts.id, sizeof(facts.id) - 1);
    return plannable_memory(facts);
  };
  EXPECT_EQ(plannable("cuda:0", kGib), kGib);
  EXPECT_EQ(plannable("rocm:0", kGib), kGib / 4 * 3);
  EXPECT_EQ(plannable("rocm:0", 5), 1U) << "0 would mean that it is unknown";
  EXPECT_EQ(plannable("rocm:0", 0), 0U);
}

// The committed model: its table has rows of (64 / 32) · 34 bytes in q8_0. gguf-py lists the same tensors.
TEST(ModelNeeds, OfAFileAndOfItsShapeAreTheSame) {
  const Checkpoint file = Checkpoint::open(std::string(GABBRO_SOURCE_DIR) + "/tests/data/tiny/tiny-q8_0.gguf");
  uint64_t bytes = 0;
  for (const CheckpointTensor& tensor : file.tensors()) bytes += tensor.data.size();
  const ModelNeeds needs = needs_of(file);
  EXPECT_EQ(needs.weight_bytes, bytes);
  const ModelNeeds computed = needs_of(llm::plan_of(file), *find_file_type("q8_0"));
  EXPECT_EQ(computed.weight_bytes, bytes);
  EXPECT_EQ(computed.parameters, needs.parameters);
  EXPECT_EQ(computed.bytes_per_token, needs.bytes_per_token);
}

TEST(ModelNeeds, TheTableOfAModelWithItsOwnHeadIsNotReadForAToken) {
  const ModelNeeds tied = workload("llama-1b", "f16", 64).needs;
  EXPECT_EQ(tied.bytes_per_token, tied.weight_bytes);
  const ModelNeeds own = workload("llama-8b", "f16", 64).needs;
  EXPECT_EQ(own.weight_bytes - own.bytes_per_token, uint64_t{128256} * 4096 * 2);
}

TEST(ModelNeeds, Contexts) {
  const llm::ModelShape shape{.context_trained = 131072};
  EXPECT_EQ(context_of(shape, 0), 4096);
  EXPECT_EQ(context_of(shape, 777), 777);
  EXPECT_EQ(context_of({.context_trained = 2048}, 0), 2048);
  EXPECT_THROW(context_of(shape, -1), Error);
  EXPECT_THROW(context_of({.context_trained = 16}, 2048), Error);
}

// 100 GB/s, all of them: 8B in q8_0 reads 7.97 GB of its 8.53 GB of weights, and at 8192 tokens 1.07 GB of keys and
// values.
TEST(Forecast, TokensPerSecond) {
  const Workload w = workload("llama-8b", "q8_0", 8192);
  const double weights = 8.53e9 - 128256.0 * 4096 * 34 / 32;
  EXPECT_NEAR(tokens_per_second(w, 100e9, 1, 0), 100e9 / weights, 0.02);
  EXPECT_NEAR(tokens_per_second(w, 100e9, 1, 8192), 100e9 / (weights + 8192 * 131072.0), 0.02);
  EXPECT_NEAR(tokens_per_second(w, 100e9, 0.5, 0), 50e9 / weights, 0.02);
}

// Gemma 3 1B has 26 layers: 4 attend to all tokens and 22 to the last 512. A key and a value of 256 in f16 take 1024
// bytes. At 32,768 tokens the layers need 512 and 19 pages.
TEST(Forecast, LayersWithAWindowTakeAndReadItsKeys) {
  Workload w = workload("llama-1b", "q8_0", 32768);
  w.needs.cache.assign(26, {.heads = 1, .dimension = 256, .window = 512});
  for (const size_t full : {5, 11, 17, 23}) w.needs.cache[full].window = 0;
  EXPECT_EQ(w.kv_bytes(), 1024u * 64 * (4 * 512 + 22 * 19));
  w.context = 1024;  // all pages are fewer
  EXPECT_EQ(w.kv_bytes(), 1024u * 26 * 1024);
  EXPECT_EQ(kv_bytes_read(w.needs, DType::f16, 400), 1024u * 26 * 400);
  EXPECT_EQ(kv_bytes_read(w.needs, DType::f16, 10000), 1024u * (4 * 10000 + 22 * 512));
  const auto bytes = static_cast<double>(w.needs.bytes_per_token + 1024 * (4 * 10000 + 22 * 512));
  EXPECT_NEAR(tokens_per_second(w, 100e9, 1, 10000), 100e9 / bytes, 0.02);
}

// A context that is said to fit does, and the next larger one does not.
TEST(Forecast, RemediesAreTheLargestThatFit) {
  Workload w = workload("llama-8b", "q4_k_m", 131072);  // 4.6 GiB of weights and 16 GiB of cache
  const uint64_t free = 12 * kGib;
  const Remedies r = remedies(w, free);
  ASSERT_TRUE(r.context.has_value());
  w.context = *r.context;
  EXPECT_LE(w.total_bytes(), free);
  w.context = *r.context + 64;
  EXPECT_GT(w.total_bytes(), free);
  EXPECT_FALSE(r.type.has_value());     // the cache alone is too large
  EXPECT_FALSE(r.kv_type.has_value());  // 8.5 GiB, and the weights
  EXPECT_EQ(remedies(workload("llama-8b", "q4_k_m", 131072), 14 * kGib).kv_type, DType::q8_0);

  Workload exact = workload("llama-8b", "q4_k_m", 32768);  // 8 GiB of cache in f32, and 4 in f16
  exact.kv_type = DType::f32;
  EXPECT_EQ(remedies(exact, 10 * kGib).kv_type, DType::f16);
  EXPECT_EQ(remedies(exact, 8 * kGib).kv_type, DType::q8_0);

  const Workload weights = workload("llama-8b", "f16", 4096);  // 15 GiB and 0.5 GiB
  EXPECT_EQ(remedies(weights, 10 * kGib).type, "q8_0");
  EXPECT_EQ(remedies(weights, 8 * kGib).type, "q6_k");
  EXPECT_FALSE(remedies(weights, 10 * kGib).context.has_value());
  EXPECT_FALSE(remedies(weights, kGib).type.has_value());
}

}  // namespace
}  // namespace gabbro
