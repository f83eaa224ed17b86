#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/emulated_hip/device_calls.h"

namespace emulated_hip {
namespace {

// A file of zeros in memory, as a model's is.
class MappedFile {
 public:
  explicit MappedFile(size_t bytes) {
    char path[] = "/tmp/emulated_hip_XXXXXX";
    const int file = ::mkstemp(path);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(bytes)), 0);
    data = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
    EXPECT_NE(data, MAP_FAILED);
    ::close(file);
    ::unlink(path);
  }
  void* data;
};

// The pinned source is read when the copy runs: some seed shows a source that was overwritten too early.
int copies_that_read_late(const char* seed) {
  return run_in_process(with(card("gfx1100"), "EMULATED_GPU_SEED", seed),
                        [] {
                          const hipStream_t stream = make_stream();
                          char* const device = allocate(4);
                          char* const pinned = allocate_pinned(4);
                          char result[4] = "";
                          std::memcpy(pinned, "old", 4);
                          succeed(hipMemcpyHtoDAsync(device, pinned, 4, stream));
                          std::memcpy(pinned, "new", 4);
                          succeed(hipMemcpyDtoHAsync(result, device, 4, stream));
                          std::exit(std::strcmp(result, "new") == 0 ? 42 : 43);
                        })
      .code;
}

TEST(Copies, APinnedSourceIsReadLate) {
  int late = 0;
  for (const char* seed : {"1", "2", "3", "4", "5", "6", "7", "8"}) late += copies_that_read_late(seed) == 42 ? 1 : 0;
  EXPECT_GT(late, 0);
  EXPECT_LT(late, 8);
}

TEST(Copies, AStagedSourceMayBeOverwritten) {
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    expect_passes(with(card("gfx1100"), "EMULATED_GPU_SEED", seed), [] {
      const hipStream_t stream = make_stream();
      std::vector<char> source(kMiB, 'a'), result(kMiB);
      char* const device = allocate(kMiB);
      succeed(hipMemcpyHtoDAsync(device, source.data(), kMiB, stream));
      std::ranges::fill(source, 'b');
      succeed(hipMemcpyDtoHAsync(result.data(), device, kMiB, stream));
      EXPECT_EQ(result, std::vector<char>(kMiB, 'a'));
    });
  }
}

TEST(Copies, TargetsOutsideAnAllocationAreRefused) {
  expect_passes(card("gfx1100"), [] {
    char* const device = allocate(100);
    char host[101] = "";
    EXPECT_EQ(hipMemcpyHtoDAsync(device, host, 101, nullptr), hipErrorInvalidValue);
    EXPECT_EQ(hipMemcpyDtoHAsync(host, device + 1, 100, nullptr), hipErrorInvalidValue);
    EXPECT_EQ(hipMemcpyHtoDAsync(host, host, 1, nullptr), hipErrorInvalidValue);
  });
}

TEST(Copies, FromAMappedFileAreRefusedAboveTheStage) {
  expect_passes(with(card("gfx1100"), "EMULATED_GPU_MAPPED_COPY", "refuse"), [] {
    const MappedFile file(2 * kMiB);
    const std::vector<char> heap(2 * kMiB);
    char* const device = allocate(2 * kMiB);
    const hipStream_t stream = make_stream();
    succeed(hipMemcpyHtoDAsync(device, file.data, kMiB, stream));
    EXPECT_EQ(hipMemcpyHtoDAsync(device, file.data, kMiB + 1, stream), hipErrorInvalidValue);
    succeed(hipMemcpyHtoDAsync(device, heap.data(), kMiB + 1, stream));
  });
}

TEST(Copies, FromAMappedFileTakeASecondIfAsked) {
  expect_passes(with(card("gfx1151"), "EMULATED_GPU_MAPPED_COPY", "delay"), [] {
    const MappedFile file(2 * kMiB);
    char* const device = allocate(2 * kMiB);
    const auto begin = std::chrono::steady_clock::now();
    succeed(hipMemcpyHtoDAsync(device, file.data, 2 * kMiB, make_stream()));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  });
}

TEST(Copies, AreCountedBySourceAndSize) {
  const std::string path = testing::TempDir() + "emulated_hip_statistics.json";
  ::unlink(path.c_str());
  expect_passes(with(card("gfx1100"), "EMULATED_GPU_STATISTICS", path), [] {
    const MappedFile file(3 * kMiB);
    std::vector<char> heap(2 * kMiB);
    char* const device = allocate(3 * kMiB);
    char* const pinned = allocate_pinned(2 * kMiB);
    const hipStream_t stream = make_stream();
    succeed(hipMemcpyHtoDAsync(device, file.data, 3 * kMiB, stream));
    succeed(hipMemcpyHtoDAsync(device, heap.data(), 100, stream));
    succeed(hipMemcpyHtoDAsync(device, heap.data(), 2 * kMiB, stream));
    succeed(hipMemcpyHtoDAsync(device, pinned, 2 * kMiB, stream));
    succeed(hipMemcpyDtoHAsync(heap.data(), device, 7, stream));
    succeed(hipStreamSynchronize(stream));
  });
  nlohmann::json read;
  std::ifstream(path) >> read;
  const auto copies = [&](const char* kind) {
    return std::vector<uint64_t>{read[kind]["count"], read[kind]["bytes"], read[kind]["largest"],
                                 read[kind]["above_1_mib"]};
  };
  EXPECT_EQ(copies("mapped_to_device"), (std::vector<uint64_t>{1, 3 * kMiB, 3 * kMiB, 1}));
  EXPECT_EQ(copies("pageable_to_device"), (std::vector<uint64_t>{2, 2 * kMiB + 100, 2 * kMiB, 1}));
  EXPECT_EQ(copies("pinned_to_device"), (std::vector<uint64_t>{1, 2 * kMiB, 2 * kMiB, 1}));
  EXPECT_EQ(copies("pageable_to_host"), (std::vector<uint64_t>{1, 7, 7, 0}));
  EXPECT_EQ(read["physical_bytes_left"], 4 * kMiB);
  EXPECT_EQ(read["streams_made"], 1);
  EXPECT_EQ(read["version"], "7.2");
}

TEST(Copies, BetweenDevicesMayBeDamaged) {
  for (const bool damaged : {false, true}) {
    auto variables = card("gfx1100,gfx1100");
    if (damaged) variables["EMULATED_GPU_FAIL"] = "peer:damage";
    expect_passes(variables, [damaged] {
      char* const source = allocate(64);
      succeed(hipMemset(source, 1, 64));
      succeed(hipDeviceSynchronize());
      int reaches = 0;
      succeed(hipDeviceCanAccessPeer(&reaches, 1, 0));
      EXPECT_EQ(reaches, 1);
      succeed(hipSetDevice(1));
      char* const target = allocate(64);
      succeed(hipMemcpyPeerAsync(target, 1, source, 0, 64, nullptr));
      std::vector<char> read(64);
      succeed(hipMemcpy(read.data(), target, 64, hipMemcpyDeviceToHost));
      EXPECT_EQ(read == std::vector<char>(64, 1), !damaged);
    });
  }
}

}  // namespace
}  // namespace emulated_hip
