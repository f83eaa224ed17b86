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
  file.complete("b", "2");
  EXPECT_FALSE(fs::exists(path_));
  file.write(0, bytes_of("head"));
  file.complete("a", "1");
  file.finish(true);
  EXPECT_EQ(read_file(path_), "headtail");
  EXPECT_FALSE(fs::exists(path_ + ".partial"));
  EXPECT_FALSE(fs::exists(path_ + ".partial.parts"));
}

TEST_F(ResumableFileTest, ContinuesWithTheCompleteParts) {
  {
    ResumableFile file(path_, "recipe", 8);
    file.write(0, bytes_of("head"));
    file.complete("a", "1");
    file.write(4, bytes_of("ta"));  // interrupted
  }
  ResumableFile file(path_, "recipe", 8);
  EXPECT_EQ(file.parts_found(), 1U);
  EXPECT_EQ(file.digest_of("a"), "1");
  EXPECT_FALSE(file.digest_of("b"));
  file.write(4, bytes_of("tail"));
  file.finish(true);
  EXPECT_EQ(read_file(path_), "headtail");
}

TEST_F(ResumableFileTest, StartsOverForAnotherRecipeOrSizeOrADamagedList) {
  const auto begin = [&] {
    ResumableFile file(path_, "recipe", 8);
    file.write(0, bytes_of("head"));
    file.complete("a", "1");
  };
  begin();
  EXPECT_FALSE(ResumableFile(path_, "another", 8).digest_of("a"));
  begin();
  EXPECT_FALSE(ResumableFile(path_, "recipe", 9).digest_of("a"));
  begin();
  std::ofstream(path_ + ".partial.parts", std::ios::trunc) << "recipe";  // its line was cut off
  EXPECT_FALSE(ResumableFile(path_, "recipe", 8).digest_of("a"));
  begin();
  std::ofstream(path_ + ".partial.parts", std::ios::app) << "b";  // so was that of a part
  EXPECT_FALSE(ResumableFile(path_, "recipe", 8).digest_of("b"));
}

TEST_F(ResumableFileTest, MoreThanTheDiskHoldsIsRefusedBeforeAnythingIsWritten) {
  EXPECT_THROW(ResumableFile(path_, "recipe", uint64_t{1} << 60), Error);
  EXPECT_FALSE(fs::exists(path_ + ".partial"));
  EXPECT_THROW(ResumableFile("/nowhere/at/all", "recipe", 8), Error);
}

TEST_F(ResumableFileTest, HasOneWriterAtATime) {
  {
    ResumableFile file(path_, "recipe", 8);
    file.write(0, bytes_of("head"));
    file.complete("a", "1");
    EXPECT_THROW(ResumableFile(path_, "another", 9), Error);
    EXPECT_THROW(ResumableFile(path_, "recipe", 8), Error);
  }
  EXPECT_TRUE(ResumableFile(path_, "recipe", 8).digest_of("a"));  // the others changed nothing
}

TEST_F(ResumableFileTest, AForeignPartialFileIsKept) {
  std::ofstream(path_ + ".partial") << "foreign ";
  EXPECT_THROW(ResumableFile(path_, "recipe", 8), Error);
  EXPECT_EQ(read_file(path_ + ".partial"), "foreign ");
  EXPECT_FALSE(fs::exists(path_ + ".partial.parts"));
}

TEST_F(ResumableFileTest, AFileThatCameUpMeanwhileIsKept) {
  ResumableFile file(path_, "recipe", 4);
  std::ofstream(path_) << "other";
  EXPECT_THROW(file.finish(false), Error);
  EXPECT_EQ(read_file(path_), "other");
  file.finish(true);
  EXPECT_EQ(read_file(path_), std::string(4, '\0'));
}

TEST_F(ResumableFileTest, ALinkKeepsItsNameAndItsTargetIsWritten) {
  const std::string link = path_ + ".link";
  fs::remove(link);
  fs::create_symlink(fs::path(path_).filename(), link);
  for (const bool replaces : {false, true}) {  // the target is missing, and is there
    ResumableFile file(link, "recipe", 4);
    file.write(0, bytes_of("head"));
    EXPECT_EQ(file.partial_path(), path_ + ".partial");
    file.finish(replaces);
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(read_file(path_), "head");
  }
  fs::remove(link);
  fs::create_symlink(fs::path(link).filename(), link);
  EXPECT_THROW(ResumableFile(link, "recipe", 4), Error);  // a loop
  fs::remove(link);
}

TEST_F(ResumableFileTest, WhatIsDiscardedLeavesNothing) {
  ResumableFile file(path_, "recipe", 8);
  file.write(0, bytes_of("head"));
  file.complete("a", "1");
  file.discard();
  EXPECT_FALSE(fs::exists(path_ + ".partial"));
  EXPECT_FALSE(fs::exists(path_ + ".partial.parts"));
}

TEST_F(ResumableFileTest, PartsAreReadAndDropped) {
  {
    ResumableFile file(path_, "recipe", 8);
    file.write(4, bytes_of("tail"));
    file.complete("b", "2");
  }
  ResumableFile file(path_, "recipe", 8);
  std::string bytes(4, ' ');
  file.read(4, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "tail");
  file.drop("b");
  EXPECT_EQ(file.parts_found(), 0U);
  EXPECT_FALSE(file.digest_of("b"));
}

}  // namespace
}  // namespace gabbro
