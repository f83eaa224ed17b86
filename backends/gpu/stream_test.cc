// Captured lists of launches on a stream of the simulator, and groups of its devices.
#include "backends/gpu/stream.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/device.h"
#include "src/base/half.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

constexpr int64_t kListCount = 100;

std::unique_ptr<Kernel> make_negate(GpuDevice& device) {
  abi::TensorView view = {.shape = {kListCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  return device.make_kernel({.op = "neg", .inputs = &view, .input_count = 1, .outputs = &view, .output_count = 1});
}

// Nine launches of a kernel, x to y and back.
struct List {
  List(const Kernel& kernel, void* x, void* y) {
    for (size_t i = 0; i < launches.size(); ++i) {
      views[i][0] = views[i][1] = {.shape = {kListCount}, .strides = {1}, .rank = 1, .dtype = DType::f32};
      views[i][0].data = i % 2 == 0 ? x : y;
      views[i][1].data = i % 2 == 0 ? y : x;
      launches[i] = {
          .kernel = &kernel, .inputs = &views[i][0], .outputs = &views[i][1], .input_count = 1, .output_count = 1};
    }
  }
  std::array<std::array<abi::TensorView, 2>, 9> views;
  std::array<abi::Launch, 9> launches;
};

TEST(Graphs, AreDroppedWithAKernelThatTheyUseAndNoOther) {
  GpuDevice device(0);
  const auto first = make_negate(device), second = make_negate(device);
  void *x = device.allocate(nullptr, kListCount * 4), *y = device.allocate(nullptr, kListCount * 4);
  const List one(*first, x, y), two(*second, x, y);
  GpuStream& other = *device.create_stream();
  auto* const handle = reinterpret_cast<abi::Stream*>(&other);
  std::vector<float> values(kListCount, 2);
  device.copy_to_device(nullptr, x, values.data(), kListCount * 4);
  for (int run = 0; run < 3; ++run) {
    for (const List* list : {&one, &two}) ASSERT_TRUE(device.execute(nullptr, list->launches.data(), 9, nullptr));
  }
  device.synchronize_stream(nullptr);
  for (int run = 0; run < 2; ++run) ASSERT_TRUE(device.execute(handle, one.launches.data(), 9, nullptr));
  device.synchronize_stream(handle);
  GpuStream& compute = device.stream(nullptr);
  EXPECT_EQ(compute.graph_count(), 2U);
  EXPECT_EQ(other.graph_count(), 1U);
  device.forget_graphs_of(first.get());
  EXPECT_EQ(compute.graph_count(), 1U);
  EXPECT_EQ(other.graph_count(), 0U);
  ASSERT_TRUE(device.execute(nullptr, two.launches.data(), 9, nullptr));  // replayed
  EXPECT_EQ(compute.graph_count(), 1U);
  device.copy_to_host(nullptr, values.data(), y, kListCount * 4);
  EXPECT_EQ(values, std::vector<float>(kListCount, values[0]));
  device.forget_graphs_of(second.get());
  EXPECT_EQ(compute.graph_count(), 0U);
  for (void* memory : {x, y}) device.free(nullptr, memory);
  device.destroy_stream(&other);
}

// Notes which of its inputs were settled at each launch.
class Witness : public Kernel {
 public:
  void enqueue(const abi::Launch& launch, const Launcher& run) const override {
    for (int i = 0; i < launch.input_count; ++i) settled.push_back(run.settled(launch, {i}));
  }
  mutable std::vector<bool> settled;
};

// An early read is of what no launch ahead in a graph writes: neither the whole of an input nor a part of it.
TEST(Graphs, TellWhichInputsAreSettled) {
  GpuDevice device(0);
  const auto negate = make_negate(device);
  auto* const memory = static_cast<float*>(device.allocate(nullptr, 4 * kListCount * 4));
  const std::vector<float> values(4 * kListCount, 1);
  device.copy_to_device(nullptr, memory, values.data(), values.size() * 4);
  List list(*negate, memory, memory + kListCount);
  const Witness witness;
  // The inputs of the last launch but one, of which others write the first 2 * kListCount elements.
  const auto part = [&](int64_t first, int64_t count) {
    return abi::TensorView{.data = memory + first, .shape = {count}, .strides = {1}, .rank = 1, .dtype = DType::f32};
  };
  std::array<abi::TensorView, 4> inputs = {part(0, 4), part(2 * kListCount - 1, 2), part(2 * kListCount, kListCount),
                                           part(3 * kListCount, kListCount)};
  std::array<abi::TensorView, 1> output = {part(3 * kListCount, kListCount)};
  list.launches[7] = {
      .kernel = &witness, .inputs = inputs.data(), .outputs = output.data(), .input_count = 4, .output_count = 1};
  ASSERT_TRUE(device.execute(nullptr, list.launches.data(), 9, nullptr));
  EXPECT_EQ(witness.settled, (std::vector<bool>{false, false, false, false}));  // launches before the list may run
  witness.settled.clear();
  ASSERT_TRUE(device.execute(nullptr, list.launches.data(), 9, nullptr));
  EXPECT_EQ(witness.settled, (std::vector<bool>{false, false, true, true}));
  // Behind a launch that writes the last of them.
  list.launches[8] = list.launches[7];
  witness.settled.clear();
  for (int run = 0; run < 2; ++run) ASSERT_TRUE(device.execute(nullptr, list.launches.data(), 9, nullptr));
  const std::vector<bool> last(witness.settled.end() - 4, witness.settled.end());
  EXPECT_EQ(last, (std::vector<bool>{false, false, true, false}));
  device.forget_graphs_of(&witness);
  device.free(nullptr, memory);
}

class Groups : public testing::TestWithParam<const char*> {
 protected:
  Groups() {
    ::setenv("GABBRO_SIM_STREAM_SEED", GetParam(), 1);
    for (size_t i = 0; i < devices_.size(); ++i) {
      EXPECT_EQ(backend().open(static_cast<int32_t>(i % 2), nullptr, &devices_[i]).code, abi::StatusCode::kOk);
      EXPECT_EQ(backend().create_stream(devices_[i], &streams_[i]).code, abi::StatusCode::kOk);
    }
    EXPECT_EQ(backend().create_group(devices_.data(), 3, &group_).code, abi::StatusCode::kOk);
  }
  ~Groups() override {
    backend().destroy_group(group_);
    for (size_t i = 0; i < devices_.size(); ++i) {
      backend().destroy_stream(devices_[i], streams_[i]);
      backend().close(devices_[i]);
    }
    ::unsetenv("GABBRO_SIM_STREAM_SEED");
  }
  static const abi::Backend& backend() { return *gabbro_backend(); }

  template <class T>
  void* upload(size_t rank, const std::vector<T>& values, size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(backend().allocate(devices_[rank], streams_[rank], bytes, &memory).code, abi::StatusCode::kOk);
    EXPECT_EQ(
        backend().copy_to_device(devices_[rank], streams_[rank], memory, values.data(), values.size() * sizeof(T)).code,
        abi::StatusCode::kOk);
    return memory;
  }
  template <class T>
  std::vector<T> download(size_t rank, const void* memory, size_t count) {
    std::vector<T> values(count);
    const abi::Status status =
        backend().copy_to_host(devices_[rank], streams_[rank], values.data(), memory, count * sizeof(T));
    EXPECT_EQ(status.code, abi::StatusCode::kOk) << status.message;
    return values;
  }

  std::array<abi::Device*, 3> devices_{};
  std::array<abi::Stream*, 3> streams_{};
  abi::Group* group_ = nullptr;
};

// rank r has r + 1, 2 (r + 1), 3 (r + 1) ...
TEST_P(Groups, ReduceInPlaceAndApart) {
  constexpr size_t kElements = 67;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const abi::Reduction reduction : {abi::Reduction::kSum, abi::Reduction::kMax}) {
      for (const bool in_place : {true, false}) {
        std::array<void*, 3> sources{}, targets{};
        const size_t bytes = dtype_bytes(dtype, kElements);
        const auto bits = [&](float value) {
          return dtype == DType::f16 ? float_to_half_bits(value) : float_to_bfloat_bits(value);
        };
        for (size_t r = 0; r < 3; ++r) {
          std::vector<float> values(kElements);
          for (size_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i * (r + 1));
          std::vector<uint16_t> words(kElements);
          for (size_t i = 0; i < kElements; ++i) words[i] = bits(values[i]);
          sources[r] = dtype == DType::f32 ? upload(r, values, bytes) : upload(r, words, bytes);
          targets[r] = in_place ? sources[r] : upload(r, std::vector<float>{}, bytes);
        }
        const abi::Status status =
            backend().all_reduce(group_, streams_.data(), sources.data(), targets.data(), dtype, kElements, reduction);
        ASSERT_EQ(status.code, abi::StatusCode::kOk) << status.message;
        for (size_t r = 0; r < 3; ++r) {
          const std::vector<float> found =
              dtype == DType::f32 ? download<float>(r, targets[r], kElements) : std::vector<float>();
          const std::vector<uint16_t> words =
              dtype == DType::f32 ? std::vector<uint16_t>() : download<uint16_t>(r, targets[r], kElements);
          for (size_t i = 0; i < kElements; ++i) {
            // Multiples of 2i and 3i are rounded on their way in, and the sum is rounded again.
            float expected = 0;
            for (size_t other = 0; other < 3; ++other) {
              const auto value = static_cast<float>(i * (other + 1));
              const float stored = dtype == DType::f32   ? value
                                   : dtype == DType::f16 ? half_bits_to_float(bits(value))
                                                         : bfloat_bits_to_float(bits(value));
              expected = reduction == abi::Reduction::kSum ? expected + stored : std::max(expected, stored);
            }
            if (dtype == DType::f32) {
              ASSERT_EQ(found[i], expected);
            } else {
              ASSERT_EQ(words[i], bits(expected));
            }
          }
          if (!in_place) backend().free(devices_[r], streams_[r], targets[r]);
          backend().free(devices_[r], streams_[r], sources[r]);
        }
      }
    }
  }
}

TEST_P(Groups, GatherInTheOrderOfTheRanks) {
  std::array<void*, 3> sources{}, targets{};
  for (size_t r = 0; r < 3; ++r) {
    targets[r] = upload(r, std::vector<int32_t>(15, -1), 60);
    sources[r] = upload(r, std::vector<int32_t>(5, static_cast<int32_t>(r)), 20);
  }
  ASSERT_EQ(backend().all_gather(group_, streams_.data(), sources.data(), targets.data(), 20).code,
            abi::StatusCode::kOk);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(download<int32_t>(r, targets[r], 15),
              (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}));
    for (void* memory : {sources[r], targets[r]}) backend().free(devices_[r], streams_[r], memory);
  }
}

TEST_P(Groups, AreOfDifferentDevicesAndOfFloats) {
  abi::Group* none = nullptr;
  abi::Device* twice[] = {devices_[0], devices_[0]};
  EXPECT_EQ(backend().create_group(twice, 2, &none).code, abi::StatusCode::kFailed);
  EXPECT_EQ(backend().create_group(twice, 0, &none).code, abi::StatusCode::kFailed);
  EXPECT_EQ(backend().all_reduce(group_, nullptr, nullptr, nullptr, DType::i32, 1, abi::Reduction::kSum).code,
            abi::StatusCode::kUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Groups, testing::Values("0", "1", "2", "99"));

}  // namespace
}  // namespace gabbro::gpu
