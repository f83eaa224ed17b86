// Families with streamed weights: what is on the device is what was planned, and experts are read when tokens are
// routed to them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>

#include "gabbro/graph/eval.h"
#include "src/backend/registry.h"
#include "src/convert/convert.h"
#include "src/engine/streaming/placement.h"
#include "src/models/llm/model.h"
#include "src/models/llm/model_plan.h"

namespace gabbro {
namespace {

// A difference in f32 may round a key or a value of the cache to the next f16.
constexpr double kCacheStep = 0x1p-11;

// Loads the model with everything streamed that may be, and returns the bytes on the device beyond the plan.
int64_t bytes_beyond_plan(const std::string& path) {
  const auto device = open_device("auto", {.threads = 2});
  const Checkpoint checkpoint = Checkpoint::open(path);
  streaming::Placement placement{.matrices = streaming::matrices_of(checkpoint, *device)};
  for (streaming::PlacedMatrix& m : placement.matrices) {
    const bool streams = m.ring_bytes > 0;
    m.home = streams ? streaming::PlacedMatrix::Home::kFile : streaming::PlacedMatrix::Home::kDevice;
    (streams ? placement.bytes_per_pass : placement.resident_bytes) += streams ? m.file_bytes : m.device_bytes;
  }
  streaming::WeightStream stream(device, placement.choice(streaming::default_sizes(*device, 0)));
  const uint64_t before = device->memory(abi::MemoryKind::kDevice).in_use;
  const auto model = llm::load_model(checkpoint, device, {.context = 32, .streamed = &stream});
  EXPECT_EQ(stream.facts().bytes_per_pass, placement.bytes_per_pass);
  uint64_t vectors = 0;
  constexpr uint64_t kRounding = 512;  // of an allocation, at most
  for (const llm::RequestedTensor& t : llm::plan_of(checkpoint).tensors)
    vectors += t.shape.size() == 1 ? static_cast<uint64_t>(t.shape[0]) * sizeof(float) + kRounding : 0;
  constexpr uint64_t kFrequencies = 2 * kRounding;  // of two rotations
  const uint64_t now = device->memory(abi::MemoryKind::kDevice).in_use - before;
  return static_cast<int64_t>(now) - static_cast<int64_t>(placement.resident_bytes + vectors + kFrequencies);
}

class StreamingFamilies : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fixtures, StreamingFamilies,
                         testing::Values("deepseek_v2", "deepseek_v3", "gpt2", "gpt_oss", "mixtral", "qwen3_moe"));

// Experts of gpt-oss in bf16 and linear layers of GPT-2 are stored transposed, heads of DeepSeek in part.
TEST_P(StreamingFamilies, HaveOnTheDeviceWhatIsPlanned) {
  const std::string folder = std::string(GABBRO_SOURCE_DIR "/tests/data/families/") + GetParam();
  EXPECT_LE(bytes_beyond_plan(folder), 0);
  const auto path = std::filesystem::temp_directory_path() / fmt::format("gabbro_placed_{}.gguf", ::getpid());
  for (const char* type : {"bf16", "q8_0"}) {
    llm::convert(Checkpoint::open(folder), path.string(), {.type = find_file_type(type), .threads = 2});
    EXPECT_LE(bytes_beyond_plan(path.string()), 0) << type;
  }
  std::filesystem::remove(path);
}

// A model of a fixture in stages, with `slots` for the experts of all layers; 0: all weights are on the device.
struct StagedModel {
  StagedModel(const std::string& folder, int64_t slots) : device(open_device("auto", {.threads = 2})) {
    const Checkpoint checkpoint = Checkpoint::open(folder);
    if (slots > 0) {
      streaming::WeightStream::Choice choice{.sizes = streaming::default_sizes(*device, 0)};
      for (const streaming::PlacedMatrix& m : streaming::matrices_of(checkpoint, *device)) {
        if (m.experts == 0) continue;
        if (choice.pools.empty()) choice.pools.push_back({.experts = m.experts, .used = m.used, .slots = slots});
        auto& prefixes = choice.pools.front().prefixes;
        const std::string prefix = fmt::format("blk.{}.", m.layer);
        if (std::ranges::find(prefixes, prefix) == prefixes.end()) prefixes.push_back(prefix);
        all_experts += m.file_bytes;
      }
      stream = std::make_unique<streaming::WeightStream>(device, choice);
    }
    model = llm::load_model(checkpoint, device, {.context = 64, .streamed = stream.get()});
    if (stream) stream->start();
    cache.emplace(device, nn::KvCacheConfig{.layers = model->cache_spec(), .groups = {{.pages = 4}}});
  }

  std::vector<float> logits(std::span<const int32_t> tokens) {
    const auto count = std::ssize(tokens);
    std::vector<int32_t> positions(tokens.size()), zeros(tokens.size(), 0);
    for (int32_t& position : positions) position = next++;
    const int32_t pages[] = {0, 1, 2, 3};
    const auto upload = [&](const int32_t* values, Shape shape) { return device->upload(DType::i32, shape, values); };
    const llm::Step step{.ids = upload(tokens.data(), Shape{count}),
                         .places = {.positions = upload(positions.data(), Shape{count}),
                                    .sequence = upload(zeros.data(), Shape{count}),
                                    .page_table = upload(pages, Shape{1, 4}),
                                    .slots = {}},
                         .output_rows = {}};
    Tensor x = model->embed(step);
    for (int64_t i = 0; i < model->shape().layers; ++i) x = model->layer(i, x, step, *cache);
    return to_host<float>(model->head(x));
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<streaming::WeightStream> stream;
  std::unique_ptr<llm::LanguageModel> model;
  std::optional<nn::KvCache> cache;
  int32_t next = 0;
  uint64_t all_experts = 0;  // bytes
};

class StreamingExperts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Fixtures, StreamingExperts, testing::Values("deepseek_v3", "mixtral", "qwen3_moe"));

TEST_P(StreamingExperts, AreReadWhenTheyAreRoutedTo) {
  const std::string folder = std::string(GABBRO_SOURCE_DIR "/tests/data/families/") + GetParam();
  for (const int64_t slots : {3, 12}) {  // fewer than a prompt needs, and enough for two layers of a token
    StagedModel by_need(folder, slots), resident(folder, 0);
    if (by_need.all_experts == 0) GTEST_SKIP() << "the device packs experts of this size together";
    const auto expect_same = [&](std::span<const int32_t> tokens) {
      const std::vector<float> got = by_need.logits(tokens), expected = resident.logits(tokens);
      const double scale = std::abs(*std::ranges::max_element(expected, {}, [](float x) { return std::abs(x); }));
      const auto vocabulary = std::ssize(expected) / std::ssize(tokens);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], kCacheStep * scale) << i;
      for (auto row = expected.begin(); row != expected.end(); row += vocabulary) {
        const auto of = got.begin() + (row - expected.begin());
        EXPECT_EQ(std::max_element(of, of + vocabulary) - of, std::max_element(row, row + vocabulary) - row);
      }
    };
    const int32_t prompt[] = {5, 17, 31, 8, 77, 40, 2};
    expect_same(prompt);
    uint64_t before = by_need.stream->facts().experts.bytes;
    for (const int32_t token : {9, 9, 9, 12}) {
      expect_same({&token, 1});
      const uint64_t now = by_need.stream->facts().experts.bytes;
      EXPECT_LT(now - before, by_need.all_experts);
      before = now;
    }
    const streaming::ExpertFacts facts = by_need.stream->facts().experts;
    EXPECT_GT(facts.misses, 0u);
    if (slots > 3) {
      EXPECT_GT(facts.hits, 0u);
    }
  }
}

}  // namespace
}  // namespace gabbro
