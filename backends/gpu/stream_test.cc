// Streams of the simulator: their counters, and groups of its devices.
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

// Launches that fail half way leave counters behind.
class HalfLaunch : public Kernel {
 public:
  void enqueue(const abi::Launch&, const Launcher& run) const override {
    const uint32_t some = 3;
    api::copy_to_device(run.queue, run.counters + 7, &some, sizeof some);
    throw ApiError(abi::StatusCode::kFailed, "half of it was launched");
  }
};

TEST(Streams, ClearTheirCountersAfterAFailure) {
  GpuDevice device(0);
  GpuStream& stream = device.stream(nullptr);
  EXPECT_FALSE(stream.nonzero_counter());
  const HalfLaunch half;
  const abi::Launch failing = {.kernel = &half};
  EXPECT_THROW(device.execute(nullptr, &failing, 1, nullptr), ApiError);
  const auto counter = stream.nonzero_counter();
  ASSERT_TRUE(counter);
  EXPECT_EQ(counter->index, 7U);
  EXPECT_EQ(counter->value, 3U);
  EXPECT_TRUE(device.execute(nullptr, nullptr, 0, nullptr));  // any list of launches
  EXPECT_FALSE(stream.nonzero_counter());
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
