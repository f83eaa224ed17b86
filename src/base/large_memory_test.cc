#include "src/base/large_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace gabbro {
namespace {

TEST(LargeMemory, IsAligned) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{4097}, (size_t{2} << 20) - 1, size_t{2} << 20, (size_t{5} << 20) + 3}) {
    const std::shared_ptr<void> memory = allocate_large(bytes);
    const size_t alignment = bytes < size_t{2} << 20 ? 4096 : size_t{2} << 20;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % alignment, 0) << bytes;
    std::memset(memory.get(), 1, bytes);
  }
}

}  // namespace
}  // namespace gabbro
