#include "backends/gpu/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "src/formats/quant/quant.h"
#include "src/formats/quant/random_blocks.h"

namespace gabbro::gpu {
namespace {

constexpr int64_t kRows = 5;

TEST(Pack, FormatsWithoutKernelsBecomeRowsOfF16) {
  int formats = 0;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (has_kernels(dtype)) continue;
    ++formats;
    const int64_t columns = 3 * dtype_info(dtype).block_elements;
    std::vector<std::byte> blocks(dtype_bytes(dtype, static_cast<size_t>(kRows * columns)));
    fill_random(dtype, blocks, 0.02f, 5);
    std::vector<float> values(static_cast<size_t>(kRows * columns));
    dequantize_row(dtype, blocks.data(), values.data(), kRows * columns);
    std::vector<std::byte> expected(values.size() * 2);
    quantize_row(DType::f16, values.data(), expected.data(), kRows * columns);
    EXPECT_EQ(packed_bytes(dtype, kRows, columns), expected.size()) << dtype_name(dtype);
    EXPECT_EQ(pack_matrix(dtype, kRows, columns, blocks.data()), expected) << dtype_name(dtype);
  }
  EXPECT_GT(formats, 0);
}

TEST(Pack, FormatsOfEqualPackingShareKernels) {
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (int j = kFirstQuantized; j < i; ++j) {
      const auto other = static_cast<DType>(j);
      if (packing_of(quant_traits(dtype)) != packing_of(quant_traits(other))) continue;
      EXPECT_EQ(kernel_format(dtype), kernel_format(other)) << dtype_name(dtype) << " " << dtype_name(other);
    }
  }
  EXPECT_EQ(kernel_format(DType::q4_k), "q4_k");
  EXPECT_EQ(kernel_format(DType::bf16), "bf16");
}

}  // namespace
}  // namespace gabbro::gpu
