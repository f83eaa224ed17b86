// Stacks of this program's threads. It has the memory of the blocks of all kernels, 10 MB for each thread, which glibc
// takes from the thread's stack: of 8 MB nothing but a page or two would be left.
#include <pthread.h>

#include <thread>

#include <gtest/gtest.h>

namespace gabbro::gpu::sim {
namespace {

[[maybe_unused]] const bool kLarger = [] {
  constexpr size_t kMore = 8 << 20;
  pthread_attr_t attributes;
  size_t bytes = 0;
  return pthread_getattr_default_np(&attributes) == 0 && pthread_attr_getstacksize(&attributes, &bytes) == 0 &&
         pthread_attr_setstacksize(&attributes, bytes + kMore) == 0 && pthread_setattr_default_np(&attributes) == 0;
}();

TEST(Stacks, HaveRoomNextToTheMemoryOfBlocks) {
  std::thread([] {
    volatile char frame[1 << 20];
    for (volatile char& byte : frame) byte = 1;
    EXPECT_EQ(frame[0], 1);
  }).join();
}

}  // namespace
}  // namespace gabbro::gpu::sim
