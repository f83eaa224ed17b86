// Streamed weights: the same logits as with all weights on the device, within the memory that was planned.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "gabbro/graph/eval.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/convert/convert.h"
#include "src/engine/runner.h"
#include "src/engine/speculation.h"
#include "src/engine/streaming/device_memory.h"
#include "src/engine/streaming/placement.h"
#include "src/engine/traced_pass.h"
#include "src/models/llm/model.h"
#include "src/models/llm/model_plan.h"
#include "src/models/weights/input_squares.h"
#include "tests/llm/expected_logits.h"

namespace gabbro {
namespace {

constexpr int64_t kWords = 257;
// On a CPU the process counts too, and grows while a model is loaded: its weights have to be more than that.
constexpr uint64_t kGrowth = uint64_t{3} << 20;
constexpr const char* kExperts =
    "architecture=qwen3moe,layers=4,embedding=256,heads=4,kv-heads=2,feed-forward=512,vocabulary=257,context=256,"
    "experts=8,experts-used=2,expert-feed-forward=1024";

std::string dense_shape() {
  const bool is_cpu = open_device("auto")->host_accessible();  // simulated GPUs are slow
  return fmt::format("layers={},embedding={},heads=4,kv-heads=2,feed-forward={},vocabulary=257,context=256",
                     is_cpu ? 7 : 8, is_cpu ? 512 : 256, is_cpu ? 1536 : 512);
}

// A model of random weights on a disk.
std::string write_model(const std::string& shape, const char* type) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("gabbro_stream_{}_{}.gguf", ::getpid(), type);
  const Checkpoint model = llm::random_checkpoint(llm::parse_blueprint(shape), *find_file_type(type), 1);
  write_file_atomically(path.string(), model.tensors().front().file->bytes());
  return path.string();
}

std::vector<int32_t> ids(int count, int first = 0) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((first + i) * 37 % kWords));
  return tokens;
}

struct Model {
  explicit Model(std::string file) : path(std::move(file)), device(open_device("auto", {.threads = 2})) {}
  ~Model() { std::filesystem::remove(path); }

  std::vector<streaming::PlacedMatrix> matrices() const {
    return streaming::matrices_of(Checkpoint::open(path), *device);
  }
  streaming::FixedMemory fixed() const {
    const ModelNeeds needs = needs_of(Checkpoint::open(path));
    const uint64_t cache = streaming::cache_bytes(needs, kv_type, {.context = 256}, *device);
    return streaming::fixed_memory(needs, matrices(), *device, cache, 256);
  }
  std::shared_ptr<Engine> load(uint64_t memory, uint64_t host_memory = 0, int64_t sequences = 1) const {
    LoadOptions options{.threads = 2, .context = 256, .sequences = sequences, .kv_type = kv_type};
    options.observer = observer;
    options.memory = memory;
    options.host_memory = host_memory;
    return Engine::load(Checkpoint::open(path), options, device);
  }
  // With room for `extra` bytes more than it needs. Loading takes some of the process on a CPU.
  std::shared_ptr<Engine> streamed(uint64_t extra = 0, uint64_t host_memory = 0, int64_t sequences = 1) const {
    const uint64_t slack = device->host_accessible() ? kGrowth : 65536;
    return load(streaming::smallest_budget(matrices(), fixed()) + extra + slack, host_memory, sequences);
  }

  std::string path;
  std::shared_ptr<Device> device;
  DType kv_type = DType::f16;
  std::shared_ptr<llm::InputSquares> observer{};
};

// Sums of up to 1,536 products in another order, up to four deviations of them.
const double kSums =
    4 * test::kGrowth * test::rounding_deviation(test::products_of(8) * 1536, test::step_of(DType::f32));
// A difference in f32 may round a key or a value of the cache to the next f16.
constexpr double kCacheRounding = 0x1p-11;
// And an input of a product with blocks to the next of 8 bits: on a card, where fused ops round in another order.
constexpr double kInputRounding = 0x1p-6;

void expect_same_logits(Engine& streamed, Engine& resident, std::shared_ptr<Engine> a, std::shared_ptr<Engine> b,
                        int prompt, double tolerance = kSums) {
  ASSERT_GT(streamed.facts().streaming.bytes_per_pass, 0u);
  ASSERT_EQ(resident.facts().streaming.bytes_per_pass, 0u);
  Session with(std::move(a)), without(std::move(b));
  std::vector<int32_t> next = ids(prompt);
  for (int step = 0; step < 3; ++step) {
    const auto got = with.append(next), expected = without.append(next);
    const double scale = std::abs(*std::ranges::max_element(expected, {}, [](float x) { return std::abs(x); }));
    for (size_t i = 0; i < expected.size(); ++i) {
      // The sums of a layer are the same; where the fusion of two layers differs, f32 is rounded another time.
      ASSERT_NEAR(got[i], expected[i], tolerance * scale) << "step " << step << " logit " << i;
    }
    const auto best = std::ranges::max_element(expected) - expected.begin();
    EXPECT_EQ(std::ranges::max_element(got) - got.begin(), best);
    next = {static_cast<int32_t>(best)};
  }
}

class Streaming : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Types, Streaming, testing::Values("f16", "q8_0", "q4_k_m"));

TEST_P(Streaming, GivesTheLogitsOfAllWeightsOnTheDevice) {
  const Model model(write_model(dense_shape(), GetParam()));
  const auto streamed = model.streamed(), resident = model.load(0);
  expect_same_logits(*streamed, *resident, streamed, resident, 19);
  const StreamingWork work = streamed->streaming_work();
  EXPECT_EQ(work.passes, 3u);
}

TEST(StreamingCache, IsOfEachType) {
  Model model(write_model(dense_shape(), "f16"));
  uint64_t bytes = UINT64_MAX;
  for (const DType kv_type : {DType::f32, DType::q8_0, DType::q4_0}) {
    SCOPED_TRACE(dtype_name(kv_type));
    model.kv_type = kv_type;
    const auto streamed = model.streamed(), resident = model.load(0);
    EXPECT_EQ(streamed->facts().kv_type, kv_type);
    const uint64_t cache = model.fixed().kv_cache;  // the plan counts it, on a card in pieces of some MiB
    EXPECT_TRUE(on_card() ? cache <= bytes : cache < bytes) << cache << " after " << bytes;
    bytes = cache;
    // A code of the cache may be the next.
    expect_same_logits(*streamed, *resident, streamed, resident, 19, is_quantized(kv_type) ? 0.05 : kSums);
  }
}

TEST_P(Streaming, KeepsWhatFits) {
  const Model model(write_model(dense_shape(), GetParam()));
  const auto tight = model.streamed(), resident = model.load(0);
  const auto wide = model.streamed(tight->facts().streaming.bytes_per_pass / 4);
  EXPECT_LT(wide->facts().streaming.bytes_per_pass, tight->facts().streaming.bytes_per_pass);
  expect_same_logits(*wide, *resident, wide, resident, 3);
}

TEST_P(Streaming, RunsExperts) {
  std::string shape = kExperts;
  // A card rounds its allocations up, which leaves room for all of a smaller model.
  if (on_card()) shape.replace(shape.rfind("1024"), 4, "2048");
  const Model model(write_model(shape, GetParam()));
  const auto streamed = model.streamed(on_card() ? uint64_t{2} << 20 : 0), resident = model.load(0);
  const bool rounds = on_card() && is_quantized(find_file_type(GetParam())->base);
  expect_same_logits(*streamed, *resident, streamed, resident, 7,
                     rounds ? test::kGrowth * kInputRounding : kCacheRounding);
}

TEST_P(Streaming, CopiesFromHostMemory) {
  const Model model(write_model(dense_shape(), GetParam()));
  if (model.device->host_accessible()) GTEST_SKIP() << "the device works in host memory";
  const auto streamed = model.streamed(0, uint64_t{1} << 20), resident = model.load(0);
  EXPECT_GT(streamed->facts().streaming.host_bytes, 0u);
  EXPECT_EQ(streamed->facts().streaming.host_bytes + streamed->facts().streaming.file_bytes_per_pass,
            streamed->facts().streaming.bytes_per_pass);
  expect_same_logits(*streamed, *resident, streamed, resident, 5);
}

TEST(StreamingSequences, SharePasses) {
  const Model model(write_model(dense_shape(), "q8_0"));
  const uint64_t cache = model.device->host_accessible() ? 2 << 20 : 512 << 10;  // of the second sequence
  const auto streamed = model.streamed(cache, 0, 2), resident = model.load(0, 0, 2);
  ASSERT_GT(streamed->facts().streaming.bytes_per_pass, 0u);
  for (const auto& engine : {streamed, resident}) {
    Runner runner(engine);
    Sequence a(engine), b(engine);
    const std::vector<int32_t> first = ids(9), second = ids(21, 5);
    const Chunk chunks[] = {{&a, first}, {&b, second}};
    ASSERT_EQ(runner.step(chunks).size(), static_cast<size_t>(2 * kWords));
  }
  EXPECT_EQ(streamed->streaming_work().passes, 1u);
}

TEST(StreamingExpertBytes, AreThoseThatWereRoutedToAndNotHeld) {
  const Model model(write_model(kExperts, "q8_0"));
  const auto engine = model.streamed();
  Session session(engine);
  constexpr uint64_t kTokens = 5, kLayers = 4, kUsed = 2;
  for (uint64_t i = 0; i < kTokens; ++i) session.append(ids(1, static_cast<int>(i)));
  const StreamingWork work = engine->streaming_work();
  uint64_t dense = 0, experts = 0;
  for (const streaming::PlacedMatrix& m : model.matrices()) {
    if (m.experts > 0) {
      experts += m.file_bytes;
    } else if (m.layer >= 0) {
      dense += m.file_bytes;
    }
  }
  ASSERT_GT(experts, 0u);
  const uint64_t expert = experts / (kLayers * 8), read = work.expert_misses + work.experts_early;
  EXPECT_EQ(work.expert_hits + work.experts_foreseen + work.expert_misses, kTokens * kLayers * kUsed);
  EXPECT_LE(work.experts_foreseen, work.experts_early);
  EXPECT_EQ(work.expert_bytes, read * expert);
  EXPECT_LE(work.bytes, kTokens * dense + read * expert);
}

TEST(StreamingMemory, TooSmallABudgetNamesTheLeast) {
  const Model model(write_model(dense_shape(), "q8_0"));
  try {
    model.load(1 << 20);
    FAIL() << "a budget of 1 MiB was enough";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
    EXPECT_NE(std::string(error.what()).find("are the least"), std::string::npos) << error.what();
  }
}

// Ends the process with 0 where a GPU never had more allocated, in pools too, than the budget while the model was
// loaded and in prompts of several lengths.
[[noreturn]] void run_within_budget(const Model& model, uint64_t host_bytes) {
  const auto engine = model.streamed(0, host_bytes);
  for (const int prompt : {18, 5}) Session(engine).append(ids(prompt));
  const StreamingFacts& facts = engine->facts().streaming;
  const uint64_t peak = engine->memory_peak().value();
  const bool right = facts.bytes_per_pass > 0 && (facts.file_bytes_per_pass == 0) == (host_bytes > 0) &&
                     facts.planned_bytes <= facts.memory && peak <= facts.memory;
  fmt::print(stderr, "{} bytes planned of {}, {} reserved\n", facts.planned_bytes, facts.memory, peak);
  std::filesystem::remove(model.path);
  std::exit(right ? 0 : 1);
}

// In separate processes: a device keeps the largest peak of all models that a process had.
TEST(StreamingMemory, PeakStaysWithinTheBudget) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Model model(write_model(dense_shape(), "q4_k_m"));
  if (model.device->host_accessible()) GTEST_SKIP() << "the device works in host memory";
  for (const uint64_t host : {uint64_t{0}, uint64_t{64} << 20})
    EXPECT_EXIT(run_within_budget(model, host), testing::ExitedWithCode(0), "planned") << host;
}

// Results of probes are in a file of the cache: here chosen speeds, in bytes per second.
class MeasuredLinks {
 public:
  MeasuredLinks(const Device& device, DType dtype, double bus, double cpu_one, double cpu_eight)
      : folder_(std::filesystem::temp_directory_path() / fmt::format("gabbro_links_{}", ::getpid())) {
    std::filesystem::create_directories(folder_ / "gabbro");
    std::string name = fmt::format("copy:{}:{}", device.facts().id, device.facts().name);
    std::ranges::replace(name, ' ', '_');
    std::string text;
    const auto add = [&](const std::string& link, double speed) {
      text += fmt::format("{} {:.0f} {}\n", link, speed, std::time(nullptr));
    };
    add(name, bus);
    add(fmt::format("cpu:{}:2:1", dtype_name(dtype)), cpu_one);
    add(fmt::format("cpu:{}:2:8", dtype_name(dtype)), cpu_eight);
    write_file_atomically((folder_ / "gabbro" / "links").string(), std::as_bytes(std::span(text)));
    const char* const before = std::getenv("XDG_CACHE_HOME");
    if (before != nullptr) before_ = before;
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~MeasuredLinks() {
    before_ ? ::setenv("XDG_CACHE_HOME", before_->c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
  std::optional<std::string> before_;
};

// A prompt is for the device, and its weights come by the bus; single tokens are for the CPU where a layer has its
// weights there, and a second prompt is for the device again.
TEST_P(Streaming, LeavesFeedForwardBlocksOfFewTokensToTheCpu) {
  const Model model(write_model(dense_shape(), GetParam()));
  if (model.device->host_accessible()) GTEST_SKIP() << "the device works in host memory";
  const DType dtype = find_file_type(GetParam())->base;
  const MeasuredLinks links(*model.device, dtype, 1e9, 1e9, 0.2e9);
  uint64_t attention = 0;  // of a part of the layers on the device
  for (const streaming::PlacedMatrix& m : model.matrices()) attention += m.rank == 1 ? m.device_bytes / 2 : 0;
  const auto streamed = model.streamed(attention, uint64_t{64} << 20), resident = model.load(0);
  const StreamingFacts& facts = streamed->facts().streaming;
  EXPECT_GT(facts.cpu_layers, 1);
  EXPECT_LE(facts.cpu_layers, 8);
  // A GPU rounds activations of quantized weights to 8 bits for one token, the CPU to 16: in each product
  // that is 2^-8 at most, and it adds up over the layers.
  const double tolerance = is_quantized(dtype) ? 0x1p-6 : kCacheRounding;
  constexpr int kTokens = 2;  // after each prompt
  ASSERT_GE(facts.cpu_tokens, 1);
  ASSERT_LE(facts.cpu_tokens, 64);
  const int prompt = std::max(9, static_cast<int>(facts.cpu_tokens) + 1);
  expect_same_logits(*streamed, *resident, streamed, resident, prompt, tolerance);
  const uint64_t few = facts.bytes_per_pass - facts.cpu_bytes;
  EXPECT_EQ(streamed->streaming_work().bytes, facts.bytes_per_pass + kTokens * few);
  expect_same_logits(*streamed, *resident, streamed, resident, prompt, tolerance);
  EXPECT_EQ(streamed->streaming_work().bytes, 2 * (facts.bytes_per_pass + kTokens * few));
}

// From host memory nothing waits on the host: the time of a pass is still that of its copies.
// An importance matrix is that of the model with all weights on the device, token by token and of a prompt.
TEST(StreamingObserver, SeesTheInputsOfAllLayers) {
  Model model(write_model(dense_shape(), "f16"));
  const auto observed = [&](bool streams) {
    model.observer = std::make_shared<llm::InputSquares>();
    const auto engine = streams ? model.streamed() : model.load(0);
    EXPECT_EQ(engine->facts().streaming.bytes_per_pass > 0, streams);
    Session session(engine);
    session.append_all_logits(ids(9));
    session.append(ids(1));
    return model.observer->result();
  };
  const ImportanceMatrix expected = observed(false), got = observed(true);
  ASSERT_FALSE(expected.entries.empty());
  ASSERT_EQ(got.entries.size(), expected.entries.size());
  for (const auto& [name, entry] : expected.entries) {
    const auto& other = got.entries.at(name);
    EXPECT_EQ(other.counts, entry.counts) << name;
    ASSERT_EQ(other.sums.size(), entry.sums.size()) << name;
    // Keys and values are rounded to f16 between layers, whose inputs differ by f32 rounding.
    for (size_t i = 0; i < entry.sums.size(); ++i)
      ASSERT_NEAR(other.sums[i], entry.sums[i], 1e-3 * (entry.sums[i] + 1)) << name << " " << i;
  }
}

TEST(StreamingTrace, IsAnError) {
  const Model model(write_model(dense_shape(), "q8_0"));
  EXPECT_THROW(TracedRunner(model.streamed(), {.visit = [](auto&&...) {}}), Error);
}

// More rows cost next to nothing in a pass that waits for weights, so that drafts are more tokens there.
TEST(StreamingDrafts, AreLongerAndLookUpTheText) {
  const Model model(write_model(dense_shape(), "q8_0"));
  const DraftDefaults streamed = Runner(model.streamed()).draft_defaults(),
                      resident = Runner(model.load(0)).draft_defaults();
  EXPECT_GT(streamed.most, resident.most);
  EXPECT_GT(streamed.pass_cost, resident.pass_cost);
  EXPECT_TRUE(streamed.lookup);
  EXPECT_FALSE(resident.lookup);
}

TEST(StreamingFacts, CountWholePasses) {
  const Model model(write_model(dense_shape(), "q8_0"));
  if (model.device->host_accessible()) GTEST_SKIP() << "the device works in host memory";
  uint64_t host = 0;  // and nothing for the CPU to compute
  for (const streaming::PlacedMatrix& m : model.matrices()) host += m.ring_bytes > 0 ? m.host_bytes : 0;
  const auto engine = model.streamed(0, host);
  const StreamingFacts& facts = engine->facts().streaming;
  ASSERT_GT(facts.bytes_per_pass, 0u);
  EXPECT_EQ(facts.host_bytes, facts.bytes_per_pass);
  Session session(engine);
  session.append(ids(3));
  session.append(ids(1));
  const StreamingWork work = engine->streaming_work();
  EXPECT_EQ(work.passes, 2u);
  EXPECT_NEAR(static_cast<double>(work.bytes), 2.0 * static_cast<double>(facts.bytes_per_pass),
              0.01 * static_cast<double>(work.bytes));
  EXPECT_GT(work.seconds, 0);
}

TEST(StreamingMemory, WhatFitsIsNotStreamed) {
  const Model model(write_model(dense_shape(), "q8_0"));
  const auto engine = model.load(uint64_t{8} << 30);
  EXPECT_EQ(engine->facts().streaming.bytes_per_pass, 0u);
}

TEST(StreamingFaults, ATruncatedFileIsAnErrorAndStaysOne) {
  const Model model(write_model(dense_shape(), "q8_0"));
  const auto engine = model.streamed();
  ASSERT_GT(engine->facts().streaming.bytes_per_pass, 0u);
  Session session(engine);
  session.append(ids(3));
  std::filesystem::resize_file(model.path, std::filesystem::file_size(model.path) / 3);
  const auto generate_on = [&] {
    for (int i = 0; i < 8; ++i) session.append(ids(1));  // what was read ahead is used first
  };
  EXPECT_THROW(generate_on(), Error);
  EXPECT_THROW(session.append(ids(1)), Error);
}

TEST(StreamingFaults, ACanceledPassLeavesTheSessionAsItWas) {
  const Model model(write_model(dense_shape(), "q8_0"));
  const auto streamed = model.streamed(), resident = model.load(0);
  Session with(streamed), without(resident);
  const std::atomic<bool> cancel = true;
  with.append(ids(5));
  without.append(ids(5));
  EXPECT_THROW(with.append(ids(1, 7), &cancel), Error);
  const auto got = with.append(ids(1, 9)), expected = without.append(ids(1, 9));
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4);
}

}  // namespace
}  // namespace gabbro
