#include "backends/gpu/packer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backends/gpu/pack.h"
#include "backends/gpu/sim/block.h"
#include "src/formats/quant/random_blocks.h"

extern "C" const gabbro::abi::Backend* gabbro_backend();

namespace gabbro::gpu {
namespace {

// The kernels of the device against the host's packing, which the linear kernels are tested with.
class DevicePack : public testing::TestWithParam<int> {};

TEST_P(DevicePack, GivesTheBytesOfTheHost) {
  const abi::Backend& backend = *gabbro_backend();
  abi::Device* device = nullptr;
  ASSERT_EQ(backend.open(GetParam(), nullptr, &device).code, abi::StatusCode::kOk);
  constexpr int64_t kAllRows = 131;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    // Formats without codes are packed by the host.
    EXPECT_EQ(sim::find_kernel(Packer::kernel_name(dtype), 32) != nullptr, has_kernels(dtype)) << dtype_name(dtype);
    const int64_t columns = 3 * dtype_info(dtype).block_elements;
    std::vector<std::byte> blocks(dtype_bytes(dtype, static_cast<size_t>(kAllRows * columns)));
    fill_random(dtype, blocks, 0.02f, 7);
    const std::vector<std::byte> expected = pack_matrix(dtype, kAllRows, columns, blocks.data());
    void *source = nullptr, *packed = nullptr;
    ASSERT_EQ(backend.allocate(device, nullptr, blocks.size(), &source).code, abi::StatusCode::kOk);
    ASSERT_EQ(backend.allocate(device, nullptr, expected.size(), &packed).code, abi::StatusCode::kOk);
    std::vector<std::byte> found(expected.size());  // zeros between the planes, as the host leaves there
    ASSERT_EQ(backend.copy_to_device(device, nullptr, packed, found.data(), found.size()).code, abi::StatusCode::kOk);
    ASSERT_EQ(backend.copy_to_device(device, nullptr, source, blocks.data(), blocks.size()).code, abi::StatusCode::kOk);
    const size_t row_bytes = blocks.size() / kAllRows;
    for (const int64_t first : {int64_t{64}, int64_t{0}}) {  // the last part first
      const abi::PackRequest part = {dtype, kAllRows, columns, first, first == 0 ? 64 : kAllRows - 64};
      const void* const rows = static_cast<std::byte*>(source) + static_cast<size_t>(first) * row_bytes;
      const abi::Status status = backend.pack(device, nullptr, &part, rows, packed);
      ASSERT_EQ(status.code, abi::StatusCode::kOk) << status.message;
    }
    ASSERT_EQ(backend.copy_to_host(device, nullptr, found.data(), packed, found.size()).code, abi::StatusCode::kOk);
    const auto wrong = std::ranges::mismatch(found, expected).in1;
    EXPECT_TRUE(wrong == found.end()) << dtype_name(dtype) << ": byte " << wrong - found.begin() << " of "
                                      << found.size();
    for (void* memory : {source, packed}) backend.free(device, nullptr, memory);
  }
  backend.close(device);
}

TEST_P(DevicePack, PartsThatAreNotRowsOfTheMatrixAreRefused) {
  const abi::Backend& backend = *gabbro_backend();
  abi::Device* device = nullptr;
  ASSERT_EQ(backend.open(GetParam(), nullptr, &device).code, abi::StatusCode::kOk);
  for (const abi::PackRequest wrong : {abi::PackRequest{DType::q8_0, 100, 64, 10, 64},
                                       {DType::q8_0, 100, 64, 0, 30},
                                       {DType::q8_0, 100, 64, 64, 64},
                                       {DType::q8_0, 100, 64, 128, 64},
                                       {DType::q8_0, 100, 64, 0, 0},
                                       {DType::q8_0, 100, 64, -64, 64}}) {
    EXPECT_EQ(backend.pack(device, nullptr, &wrong, nullptr, nullptr).code, abi::StatusCode::kFailed);
  }
  const abi::PackRequest plain = {DType::f16, 100, 64, 0, 100};
  EXPECT_EQ(backend.pack(device, nullptr, &plain, nullptr, nullptr).code, abi::StatusCode::kUnsupported);
  backend.close(device);
}

INSTANTIATE_TEST_SUITE_P(Waves, DevicePack, testing::Values(0, 1));

}  // namespace
}  // namespace gabbro::gpu
