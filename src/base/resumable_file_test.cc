#include "src/base/resumable_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class ResumableFileTest : public testing::Test {
 protected:
  ResumableFileTest() : path_(testing::TempDir() + "resumable-" + std::to_string(::getpid())) { clear(); }
  ~ResumableFileTest() override { clear(); }
  void clear() const {
    for (const char* suffix : {"", ".partial", ".partial.parts"}) fs::remove(path_ + suffix);
  }
  const std::string path_;
};

TEST_F(ResumableFileTest, IsThereUnderItsNameWhenItIsFinished) {
  ResumableFile file(path_, "recipe", 8);
  file.write(4, bytes_of("tail"));
  file.complete("b");
  EXPECT_FALSE(fs::exists(path_));
  file.write(0, bytes_of("head"));
  file.complete("a");
  file.finish();
  EXPECT_EQ(read_file(path_), "headtail");
  EXPECT_FALSE(fs::exists(path_ + ".partial"));
  EXPECT_FALSE(fs::exists(path_ + ".partial.parts"));
}

TEST_F(ResumableFileTest, ContinuesWithTheCompleteParts) {
  {
    ResumableFile file(path_, "recipe", 8);
    file.write(0, bytes_of("head"));
    file.complete("a");
    file.write(4, bytes_of("ta"));  // interrupted
  }
  ResumableFile file(path_, "recipe", 8);
  EXPECT_EQ(file.parts_found(), 1U);
  EXPECT_TRUE(file.has("a"));
  EXPECT_FALSE(file.has("b"));
  file.write(4, bytes_of("tail"));
  file.finish();
  EXPECT_EQ(read_file(path_), "headtail");
}

TEST_F(ResumableFileTest, StartsOverForAnotherRecipeOrSizeOrADamagedList) {
  const auto begin = [&] {
    ResumableFile file(path_, "recipe", 8);
    file.write(0, bytes_of("head"));
    file.complete("a");
  };
  begin();
  EXPECT_FALSE(ResumableFile(path_, "another", 8).has("a"));
  begin();
  EXPECT_FALSE(ResumableFile(path_, "recipe", 9).has("a"));
  begin();
  std::ofstream(path_ + ".partial.parts", std::ios::trunc) << "recipe";  // its line was cut off
  EXPECT_FALSE(ResumableFile(path_, "recipe", 8).has("a"));
  begin();
  std::ofstream(path_ + ".partial.parts", std::ios::app) << "b";  // so was that of a part
  EXPECT_FALSE(ResumableFile(path_, "recipe", 8).has("b"));
}

TEST_F(ResumableFileTest, MoreThanTheDiskHoldsIsRefusedBeforeAnythingIsWritten) {
  EXPECT_THROW(ResumableFile(path_, "recipe", uint64_t{1} << 60), Error);
  EXPECT_FALSE(fs::exists(path_ + ".partial"));
  EXPECT_THROW(ResumableFile("/nowhere/at/all", "recipe", 8), Error);
}

}  // namespace
}  // namespace gabbro
