#include "src/base/file_faults.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

constexpr size_t kBytes = 50000;

// A file that is removed again at the end.
struct Cut {
  Cut() {
    std::string name = testing::TempDir() + "faults.XXXXXX";
    ::close(::mkstemp(name.data()));
    path = name;
    std::ofstream(path, std::ios::binary) << std::string(kBytes, 'x');
  }
  ~Cut() { std::filesystem::remove(path); }
  void cut(size_t bytes) const { std::filesystem::resize_file(path, bytes); }
  std::string path;
};

char read(const MappedFile& file, size_t at) {
  return *static_cast<const volatile char*>(static_cast<const void*>(file.bytes().data() + at));
}

TEST(FileFaults, ThrowingReadsZerosAndTheCheckNamesTheFile) {
  handle_file_faults(FileFault::kThrow);
  const Cut one, other;
  const MappedFile file(one.path), whole(other.path);
  one.cut(100);
  EXPECT_EQ(read(file, 40000), 0);
  EXPECT_EQ(read(file, 20000), 0);
  EXPECT_EQ(read(file, 50), 'x');
  EXPECT_EQ(read(whole, 40000), 'x');
  whole.require_unchanged();
  try {
    file.require_unchanged();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kFailed);
    EXPECT_EQ(error.what(), one.path + ": the file had 50000 bytes when it was loaded, and has 100 now");
  }
  EXPECT_EQ(mapped_file_at(whole.bytes().data() + 5), other.path);
  EXPECT_EQ(mapped_file_at(&one), "");
}

TEST(FileFaultsDeathTest, ExitingNamesTheFileInOneLine) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [](bool in_thread, bool grown) {
    handle_file_faults(FileFault::kExit);
    const Cut one;
    const MappedFile file(one.path);
    one.cut(100);
    if (grown) one.cut(kBytes + 1);
    if (grown) one.cut(100);
    if (in_thread) {
      std::thread other([&] { read(file, 30000); });
      read(file, 40000);
      other.join();
    } else {
      read(file, 40000);
    }
  };
  const char* const line =
      "^gabbro: error: .*faults\\..*: the file had 50000 bytes when it was loaded, and has 100 now: it was cut while "
      "it "
      "was used\n$";
  EXPECT_EXIT(fault(false, false), testing::ExitedWithCode(1), line);
  EXPECT_EXIT(fault(true, true), testing::ExitedWithCode(1), line);
}

// A mapping that the library does not know.
void fault_elsewhere() {
  const Cut one;
  const int file = ::open(one.path.c_str(), O_RDONLY);
  const auto* const data = static_cast<const volatile char*>(::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0));
  one.cut(0);
  static_cast<void>(data[40000]);
}

TEST(FileFaultsDeathTest, OtherFaultsGoToTheHandlerBefore) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has a handler, too";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        handle_file_faults(FileFault::kExit);
        fault_elsewhere();
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        struct sigaction before = {};
        before.sa_handler = [](int) { ::_exit(42); };
        ::sigaction(SIGBUS, &before, nullptr);
        handle_file_faults(FileFault::kExit);
        fault_elsewhere();
      },
      testing::ExitedWithCode(42), "");
  EXPECT_EXIT(
      {
        handle_file_faults(FileFault::kExit);
        ::raise(SIGBUS);
      },
      testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace gabbro
