// Models whose tensors are cut for several devices of the simulator: the logits of one device but for the order of
// sums, the same bits on each repetition, and each device reads its own part of the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/engine/runner.h"
#include "src/formats/file_type.h"
#include "src/models/llm/model.h"
#include "src/models/llm/model_plan.h"
#include "src/models/weights/tensor_shard.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"
#include "tests/llm/tiny_model.h"
#include "tests/staged/sharded_answer.h"

namespace gabbro::shards_test {
namespace {

using testing::HasSubstr;

constexpr size_t kPromptTokens = 9, kStepTokens = 3;

class Shards : public testing::TestWithParam<std::string> {
 protected:
  Shards() {
    set("GABBRO_SIM_DEVICES", "4");
    set("GABBRO_SIM_WAVE", "32");
  }
  ~Shards() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  void set(const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    names_.emplace_back(name);
  }

  static LoadOptions on(size_t devices) {
    LoadOptions options{.split = Split::kTensor, .context = 128};
    for (size_t i = 0; i < devices; ++i) options.devices.push_back("sim:" + std::to_string(i));
    return options;
  }

  // Logits of all tokens of a prompt, and of steps of one token after it.
  static std::vector<float> logits_of(const std::string& path, const std::vector<int32_t>& ids,
                                      const LoadOptions& options) {
    const auto engine = Engine::load(path, options);
    Session session(engine);
    const std::span<const int32_t> all(ids);
    const std::span<const float> first = session.append_all_logits(all.first(kPromptTokens));
    std::vector<float> logits(first.begin(), first.end());
    for (size_t i = kPromptTokens; i < kPromptTokens + kStepTokens; ++i) {
      const std::span<const float> one = session.append(all.subspan(i, 1));
      logits.insert(logits.end(), one.begin(), one.end());
    }
    return logits;
  }

  static const std::string& tiny() {
    static const std::string path = test::tiny_llama().write("shards");
    return path;
  }
  static std::vector<int32_t> tiny_ids() { return {5, 17, 200, 9, 11, 42, 7, 1, 99, 3, 250, 8}; }

 private:
  std::vector<std::string> names_;
};

// Models of random weights, in formats with blocks of 256 and of 32 elements: two heads of 64 are half a block.
constexpr const char* kShape = "layers=1,embedding=256,heads=4,kv-heads=2,feed-forward=768,vocabulary=320,context=256";

Checkpoint random_model(const char* type, const char* shape = kShape) {
  return llm::random_checkpoint(llm::parse_blueprint(shape), *find_file_type(type), 1);
}

Answer greedy(const Checkpoint& checkpoint, const LoadOptions& options) {
  return shards_test::greedy(Engine::load(checkpoint, options, nullptr), {5, 17, 200, 9, 11, 42, 7, 1, 99}, 3);
}

using ShardedFormat = Shards;
INSTANTIATE_TEST_SUITE_P(Formats, ShardedFormat, testing::Values("f32", "f16", "q4_0", "q8_0", "q4_k_m"));

TEST_P(ShardedFormat, AnyNumberOfDevicesHasTheTokensOfOne) {
  const Checkpoint checkpoint = random_model(GetParam().c_str());
  const Answer one = greedy(checkpoint, {.device = "sim:0", .context = 128});
  // Decode rounds activations to 8 bits by blocks, whose inputs differ in the last bits.
  const double tolerance = GetParam()[0] == 'f' ? 0x1p-9 : 0x1p-5;
  for (const size_t devices : {2, 3, 4}) {
    const LoadOptions options = on(devices);
    expect_same(greedy(checkpoint, options), one, tolerance, std::to_string(devices) + " devices");
  }
  LoadOptions uneven = on(2);
  uneven.shares = {3, 1};
  expect_same(greedy(checkpoint, uneven), one, tolerance, "3,1");
}

TEST_F(Shards, RepetitionsAndOrdersOfTheStreamsHaveTheSameBits) {
  set("GABBRO_SPLIT_PATIENCE", "300");  // deferred work is done while the host waits
  const Checkpoint checkpoint = random_model("q4_k_m");
  const Answer first = greedy(checkpoint, on(3));
  for (const char* const seed : {"0", "1", "2"}) {
    set("GABBRO_SIM_STREAM_SEED", seed);
    EXPECT_TRUE(greedy(checkpoint, on(3)).logits == first.logits) << seed;
  }
  set("GABBRO_SIM_STREAM_SEED", "1");
  set("GABBRO_PEER_COPIES", "0");
  EXPECT_TRUE(greedy(checkpoint, on(3)).logits == first.logits);
  const auto engine = Engine::load(tiny(), on(2));
  std::vector<float> expected;
  for (int i = 0; i < 100; ++i) {
    Session session(engine);
    const std::span<const float> logits = session.append(std::vector<int32_t>{7, 8, 9});
    if (i == 0) expected.assign(logits.begin(), logits.end());
    ASSERT_TRUE(std::ranges::equal(logits, expected)) << i;
  }
}

// Kernels that wait for each other add up in the same order: tokens of prompts and of compiled steps.
TEST_F(Shards, SumsInPlansHaveTheBitsOfTheHostsOrder) {
  for (const size_t devices : {2, 3}) {
    const Checkpoint checkpoint = random_model(devices == 2 ? "f16" : "q8_0");
    const Answer first = greedy(checkpoint, on(devices));
    set("GABBRO_SIM_RANK_SUMS", "1");
    const Answer in_plans = greedy(checkpoint, on(devices));
    ::unsetenv("GABBRO_SIM_RANK_SUMS");
    EXPECT_EQ(in_plans.tokens, first.tokens) << devices;
    EXPECT_TRUE(in_plans.logits == first.logits) << devices;
  }
}

// With sums in plans a step is queued while the one before it runs: by the largest logit, and by samplers.
TEST_F(Shards, StepsAreQueuedAhead) {
  const auto tokens_of = [&](const LoadOptions& options, float temperature) {
    const auto engine = Engine::load(tiny(), options);
    Sequence sequence(engine);
    Runner runner(engine);
    Sampler sampler({.temperature = temperature, .seed = 7}, engine->facts().vocabulary);
    Sampler* const samplers[] = {&sampler};
    std::vector<int32_t> tokens = tiny_ids(), all;
    for (int i = 0; i < 8; ++i) {
      const Chunk chunk{&sequence, tokens};
      const std::span<const Chunk> chunks(&chunk, 1);
      const std::span<const int32_t> found = temperature == 0 ? runner.step_greedy(chunks, nullptr, true)
                                                              : runner.step_tokens(chunks, samplers, nullptr, true);
      tokens = {found[0]};
      sampler.accept(found[0]);
      all.push_back(found[0]);
    }
    if (!options.devices.empty()) EXPECT_GT(runner.steps_queued_before(), 4);
    return all;
  };
  set("GABBRO_SIM_RANK_SUMS", "1");
  for (const float temperature : {0.0f, 1.0f})
    EXPECT_EQ(tokens_of(on(2), temperature), tokens_of({.device = "sim:0", .context = 128}, temperature));
}

// A step that was queued ahead is dropped where the next one is another: of another token, or after an interruption.
TEST_F(Shards, QueuedStepsAreDropped) {
  set("GABBRO_SIM_RANK_SUMS", "1");
  const auto engine = Engine::load(tiny(), on(2));
  const auto step = [&](Runner& runner, Sequence& sequence, std::vector<int32_t> tokens,
                        const std::atomic<bool>* cancel) {
    const Chunk chunk{&sequence, tokens};
    return runner.step_greedy(std::span<const Chunk>(&chunk, 1), cancel, true)[0];
  };
  const auto after = [&](int32_t second) {  // of a fresh sequence
    Sequence sequence(engine);
    Runner runner(engine);
    step(runner, sequence, tiny_ids(), nullptr);
    step(runner, sequence, {second}, nullptr);
    return step(runner, sequence, {9}, nullptr);
  };
  const int32_t expected = after(11);
  Sequence sequence(engine);
  Runner runner(engine);
  step(runner, sequence, tiny_ids(), nullptr);
  const std::atomic<bool> stopped = true;
  for (int i = 0; i < 3; ++i) EXPECT_THROW(step(runner, sequence, {11}, &stopped), Error);
  step(runner, sequence, {11}, nullptr);
  EXPECT_EQ(step(runner, sequence, {9}, nullptr), expected);
  EXPECT_EQ(after(11), expected);
}

// After a failure of one device the others do not wait, and a new model counts its sums from the beginning.
TEST_F(Shards, FaultsBetweenSumsInPlansNameTheDevice) {
  const std::vector<float> right = logits_of(tiny(), tiny_ids(), on(2));
  set("GABBRO_SIM_RANK_SUMS", "1");
  int failures = 0;
  for (const char* const fault : {"lost:40", "malloc:9", "malloc:30"}) {
    set("GABBRO_SIM_FAIL", fault);
    try {
      EXPECT_TRUE(logits_of(tiny(), tiny_ids(), on(2)) == right) << fault;
    } catch (const Error& error) {
      ++failures;
      EXPECT_THAT(error.what(), HasSubstr("sim:")) << fault;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("another device"))) << fault;
    }
    set("GABBRO_SIM_FAIL", "");
    EXPECT_TRUE(logits_of(tiny(), tiny_ids(), on(2)) == right) << fault;
  }
  EXPECT_GE(failures, 2);
}

TEST_F(Shards, DevicesOfSeveralBackendsExchangeThroughTheHost) {
  const std::vector<float> one = logits_of(tiny(), tiny_ids(), {.device = "cpu", .context = 128});
  LoadOptions mixed = on(2);
  mixed.devices[1] = "cpu";
  expect_near(logits_of(tiny(), tiny_ids(), mixed), one, test::TinyModel::kV, kTolerance, "sim:0,cpu");
  EXPECT_THAT(Engine::load(tiny(), mixed)->facts().device_note, HasSubstr("through the host's memory"));
}

TEST_F(Shards, TakeTheTypesOfTheCache) {
  const Checkpoint checkpoint = random_model("f16");
  for (const DType type : {DType::f32, DType::q8_0, DType::q4_0}) {
    LoadOptions one{.device = "sim:0", .context = 128, .kv_type = type}, two = on(2);
    two.kv_type = type;
    expect_same(greedy(checkpoint, two), greedy(checkpoint, one), 0x1p-5, std::string(dtype_name(type)));
  }
}

// The devices together read the file, but for vectors of the stream and blocks at the cuts.
TEST_F(Shards, ADeviceReadsItsPartOfTheFile) {
  for (const char* const type : {"f16", "q8_0", "q4_k_m"}) {
    const Checkpoint checkpoint =
        random_model(type, "layers=1,embedding=1024,heads=4,kv-heads=4,feed-forward=2048,vocabulary=512");
    uint64_t file = 0;
    for (const CheckpointTensor& tensor : checkpoint.tensors()) file += tensor.data.size();
    for (const size_t ranks : {2, 4}) {
      uint64_t read = 0;
      for (size_t rank = 0; rank < ranks; ++rank) {
        const llm::TensorShard shard{.rank = rank, .shares = std::vector<double>(ranks, 1), .sum = nullptr};
        uint64_t of_rank = 0;
        llm::LoadModelOptions options{.context = 64, .shard = &shard};
        options.progress = [&](uint64_t done, uint64_t) { of_rank = done; };
        const auto device = open_device("sim:" + std::to_string(rank));
        llm::load_model(checkpoint, device, options);
        EXPECT_LE(of_rank, file * 1.1 / static_cast<double>(ranks));
        read += of_rank;
      }
      EXPECT_GE(read, file);
      EXPECT_LE(static_cast<double>(read), 1.02 * static_cast<double>(file)) << type << ranks;
    }
  }
}

TEST_F(Shards, RefusesWhatItCannotCut) {
  const auto message = [](const std::string& path, const LoadOptions& options) -> std::string {
    try {
      Engine::load(path, options);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return "loaded";
  };
  EXPECT_EQ(message(tiny(), on(3)),
            "2 heads with 1 KV heads cannot be split over 3 devices | these numbers of devices fit: 1, 2");
  EXPECT_THAT(message(family_folder("gemma3n"), on(2)),
              HasSubstr("models of architecture gemma3n_text cannot be split"));
  LoadOptions streamed = on(2);
  streamed.memory = 1 << 20;
  EXPECT_THAT(message(tiny(), streamed),
              HasSubstr("a model that is split over devices has no weights that are streamed"));
}

// A fault of one device ends the step on all of them, with its name; the next model runs.
TEST_F(Shards, FaultsNameTheDevice) {
  const std::vector<float> right = logits_of(tiny(), tiny_ids(), on(2));
  set("GABBRO_PEER_COPIES", "0");  // without the test of the pair
  int failures = 0;
  for (const char* const fault : {"lost:3", "lost:20", "launch:6", "launch:40", "malloc:9", "malloc:30"}) {
    set("GABBRO_SIM_FAIL", fault);
    try {
      EXPECT_TRUE(logits_of(tiny(), tiny_ids(), on(2)) == right) << fault;
    } catch (const Error& error) {
      ++failures;
      EXPECT_THAT(error.what(), HasSubstr("sim:")) << fault;
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("another device"))) << fault;
    }
    set("GABBRO_SIM_FAIL", "");
    EXPECT_TRUE(logits_of(tiny(), tiny_ids(), on(2)) == right);
  }
  EXPECT_GE(failures, 4);
}

// The host waits for a device whose work never ends: the request ends within seconds, and so does the next one.
TEST_F(Shards, AStuckDeviceEndsTheRequestWithItsName) {
  set("GABBRO_SIM_HANG", "20");
  set("GABBRO_SIM_FAIL", "hang:300");
  const auto engine = Engine::load(tiny(), on(2));
  set("GABBRO_SIM_FAIL", "");
  Session session(engine);
  std::string message;
  std::chrono::duration<double> longest{0};
  for (int i = 0; i < 200 && message.empty(); ++i) {
    const auto before = std::chrono::steady_clock::now();
    try {
      session.append(std::vector<int32_t>{8});
      if (i % 100 == 99) session.truncate(0);
    } catch (const DeviceLost& error) {
      message = error.what();
    }
    longest = std::max<std::chrono::duration<double>>(longest, std::chrono::steady_clock::now() - before);
  }
  EXPECT_THAT(message, testing::MatchesRegex("sim:[01]: the device does not answer"));
  EXPECT_LT(longest.count(), 15);  // tests/cli/test_tensor_split.py has the limit, which other work may delay
  EXPECT_THROW(session.append(std::vector<int32_t>{7}), DeviceLost);
}

}  // namespace
}  // namespace gabbro::shards_test
