#include "src/base/async_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "src/base/error.h"

namespace gabbro {
namespace {

using Make = std::function<std::unique_ptr<AsyncReader>()>;

class Reader : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("gabbro_reads_" + std::to_string(::getpid()));
    std::ofstream file(path_, std::ios::binary);
    for (int i = 0; i < kBytes; ++i) file.put(static_cast<char>(i * 31 % 251));
    file.close();
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor_, 0);
  }
  void TearDown() override {
    ::close(descriptor_);
    std::filesystem::remove(path_);
  }

  static std::unique_ptr<AsyncReader> make(int depth) {
    std::string reason;
    if (GetParam() == std::string("threads")) return make_thread_reader(depth);
    return make_uring_reader(depth, &reason);
  }

  static std::map<uint64_t, int64_t> wait_for(AsyncReader& reader, size_t count) {
    std::map<uint64_t, int64_t> results;
    std::vector<FinishedRead> finished;
    for (int tries = 0; results.size() < count && tries < 500; ++tries) {
      finished.clear();
      reader.wait(finished, std::chrono::milliseconds(20));
      for (const FinishedRead& read : finished) results[read.tag] = read.result;
    }
    return results;
  }

  static constexpr int kBytes = 20011;
  std::filesystem::path path_;
  int descriptor_ = -1;
};
INSTANTIATE_TEST_SUITE_P(Kinds, Reader, testing::Values("io_uring", "threads"));

TEST_P(Reader, ReadsManyAtATime) {
  const auto reader = make(4);
  if (reader == nullptr) GTEST_SKIP() << "io_uring is refused here";
  EXPECT_STREQ(reader->name(), GetParam());
  constexpr size_t kPiece = 1000;
  std::vector<std::byte> memory(kBytes + kPiece);
  size_t next = 0, done = 0;
  std::vector<FinishedRead> finished;
  int under_way = 0;
  while (done * kPiece < kBytes) {
    for (; under_way < 4 && next * kPiece < kBytes; ++next, ++under_way)
      reader->submit({descriptor_, next * kPiece, kPiece, memory.data() + next * kPiece, next});
    finished.clear();
    reader->wait(finished, std::chrono::milliseconds(1000));
    ASSERT_FALSE(finished.empty());
    for (const FinishedRead& read : finished) {
      const size_t left = kBytes - read.tag * kPiece;
      EXPECT_EQ(read.result, static_cast<int64_t>(std::min(kPiece, left)));  // the last one is short
    }
    done += finished.size();
    under_way -= static_cast<int>(finished.size());
  }
  for (int i = 0; i < kBytes; ++i) ASSERT_EQ(static_cast<int>(memory[static_cast<size_t>(i)]), i * 31 % 251) << i;
}

TEST_P(Reader, TellsWhatWentWrong) {
  const auto reader = make(2);
  if (reader == nullptr) GTEST_SKIP() << "io_uring is refused here";
  std::byte memory[16];
  reader->submit({-1, 0, sizeof memory, memory, 7});
  reader->submit({descriptor_, kBytes, sizeof memory, memory, 8});
  const auto results = wait_for(*reader, 2);
  EXPECT_EQ(results.at(7), -EBADF);
  EXPECT_EQ(results.at(8), 0);  // the end of the file
}

TEST_P(Reader, WaitsNoLongerThanItIsTold) {
  const auto reader = make(1);
  if (reader == nullptr) GTEST_SKIP() << "io_uring is refused here";
  std::vector<FinishedRead> finished;
  reader->wait(finished, std::chrono::milliseconds(1));
  EXPECT_TRUE(finished.empty());
}

TEST(AsyncReader, RefusesAnUnknownKind) {
  ::setenv("GABBRO_IO", "carrier pigeons", 1);
  std::string note;
  EXPECT_THROW(make_async_reader(1, &note), Error);
  ::setenv("GABBRO_IO", "threads", 1);
  EXPECT_STREQ(make_async_reader(1, &note)->name(), "threads");
  ::unsetenv("GABBRO_IO");
}

}  // namespace
}  // namespace gabbro
