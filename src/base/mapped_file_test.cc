#include "src/base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"

namespace gabbro {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::span<const std::byte> as_span(std::string_view text) { return std::as_bytes(std::span(text)); }

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = testing::TempDir() + "gabbro.XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~Files() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return fmt::format("{}/{}", folder_, name); }
  std::string put(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  size_t entries() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})); }

  std::string folder_;
};

template <class Run>
std::string error_of(ErrorCode code, const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "(no error)";
}

// Both readers refuse the same things in the same words.
std::string read_error(const std::string& path) {
  const std::string mapped = error_of(ErrorCode::kBadInput, [&] { MappedFile file(path); });
  EXPECT_EQ(error_of(ErrorCode::kBadInput, [&] { read_file(path); }), mapped);
  return mapped;
}

TEST_F(Files, AMappedFileIsTheFile) {
  const std::string text = "hello" + std::string(10000, 'x');
  const MappedFile file(put("a", text));
  EXPECT_EQ(file.path(), path("a"));
  ASSERT_EQ(file.bytes().size(), text.size());
  EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
}

// The advice changes when pages come and go, never what they hold.
TEST_F(Files, AdviceLeavesTheBytesAlone) {
  std::string text(5 * 4096 + 17, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const MappedFile file(put("a", text));
  for (const size_t offset : {size_t{0}, size_t{1}, size_t{4096}, size_t{10000}, text.size()}) {
    file.will_need(offset, text.size() - offset);
    file.release(offset, text.size() - offset);
    file.release(offset, 0);
    EXPECT_EQ(std::memcmp(file.bytes().data(), text.data(), text.size()), 0);
  }
}

TEST_F(Files, AFileThatChangesIsNamed) {
  const std::string a = put("a", std::string(5000, 'a'));
  const MappedFile file(a);
  file.require_unchanged();
  std::ofstream(a, std::ios::in | std::ios::binary) << "b";  // in place
  EXPECT_EQ(error_of(ErrorCode::kFailed, [&] { file.require_unchanged(); }),
            a + ": the file was written to since it was loaded");
  fs::resize_file(a, 4999);
  EXPECT_EQ(error_of(ErrorCode::kFailed, [&] { file.require_unchanged(); }),
            a + ": the file had 5000 bytes when it was loaded, and has 4999 now");
}

TEST_F(Files, AFileThatIsReplacedOrRemovedStaysWhatItWas) {
  const std::string a = put("a", std::string(5000, 'a'));
  const MappedFile file(a);
  write_file_atomically(a, as_span("other"));
  file.require_unchanged();
  fs::remove(a);
  file.require_unchanged();
  EXPECT_EQ(std::to_integer<char>(file.bytes()[4999]), 'a');
}

TEST_F(Files, ADetachedHeaderStays) {
  const std::string a = put("a", std::string(20000, 'a'));
  const MappedFile file(a);
  file.detach(5000);
  std::ofstream(a, std::ios::in | std::ios::binary) << std::string(20000, 'b');
  const auto at = [&](size_t i) { return std::to_integer<char>(file.bytes()[i]); };
  EXPECT_EQ(at(0), 'a');
  EXPECT_EQ(at(4999), 'a');
  EXPECT_EQ(at(19999), 'b');
  EXPECT_EQ(error_of(ErrorCode::kFailed, [&] { file.detach(1); }), a + ": the file was written to since it was loaded");
}

TEST_F(Files, FilesInUseAreThoseThatSomethingHolds) {
  const std::string a = put("a", "first"), b = put("b", "second");
  auto held = std::make_shared<const MappedFile>(a), dropped = std::make_shared<const MappedFile>(b);
  FilesInUse files;
  files.add(std::vector{held, dropped});
  dropped.reset();
  put("b", "changed");
  files.require_unchanged();
  put("a", "changed");
  EXPECT_THAT(error_of(ErrorCode::kFailed, [&] { files.require_unchanged(); }),
              HasSubstr(a + ": the file had 5 bytes"));
}

TEST_F(Files, WhatIsNoRegularFileIsRefusedAndNamed) {
  EXPECT_EQ(read_error(path("none")), path("none") + ": No such file or directory");
  EXPECT_EQ(read_error(folder_), folder_ + ": is a folder, not a file");
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(read_error(path("fifo")), path("fifo") + ": is not a regular file");  // without waiting for a writer
  EXPECT_EQ(read_error("/dev/null"), "/dev/null: is not a regular file");
  fs::create_symlink(path("none"), path("dangling"));
  EXPECT_EQ(read_error(path("dangling")), path("dangling") + ": No such file or directory");
}

TEST_F(Files, AnEmptyFileCanBeReadButNotMapped) {
  put("empty", "");
  EXPECT_EQ(read_file(path("empty")), "");
  EXPECT_EQ(error_of(ErrorCode::kBadInput, [&] { MappedFile file(path("empty")); }),
            path("empty") + ": the file is empty");
}

TEST_F(Files, AFileThatMayNotBeReadIsNamed) {
  put("secret", "x");
  ASSERT_EQ(::chmod(path("secret").c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  const bool root = ::geteuid() == 0;  // who may read everything
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string error = read_error(path("secret"));
  const std::string write_error =
      root ? error_of(ErrorCode::kFailed, [&] { write_file_atomically(path("b"), as_span("x")); }) : "";
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
    EXPECT_EQ(write_error, path("b") + ": cannot write to its folder: Permission denied");
  }
  EXPECT_EQ(error, path("secret") + ": Permission denied");
}

TEST_F(Files, ReadFileKeepsItsLimit) {
  const std::string text("a\0b\n", 4);
  put("a", text);
  EXPECT_EQ(read_file(path("a")), text);
  EXPECT_EQ(read_file(path("a"), 4), text);
  EXPECT_EQ(error_of(ErrorCode::kBadInput, [&] { read_file(path("a"), 3); }),
            path("a") + ": 4 bytes are more than the 3 that are read here");
}

TEST_F(Files, WritesWholeFilesOverOldOnes) {
  write_file_atomically(path("a"), as_span("first, and longer"));
  write_file_atomically(path("a"), as_span("second"));
  EXPECT_EQ(read_file(path("a")), "second");
  write_file_atomically(path("a"), std::span<const std::byte>());
  EXPECT_EQ(read_file(path("a")), "");
  const std::span<const std::byte> pieces[] = {as_span("one "), {}, as_span("two")};
  write_file_atomically(path("a"), pieces);
  EXPECT_EQ(read_file(path("a")), "one two");
  EXPECT_EQ(entries(), 1u);  // no temporary file stays
  struct stat info = {};
  ASSERT_EQ(::stat(path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(Files, AFolderThatCannotTakeTheFileIsAnError) {
  EXPECT_EQ(error_of(ErrorCode::kFailed, [&] { write_file_atomically(path("no/a"), as_span("x")); }),
            path("no/a") + ": cannot write to its folder: No such file or directory");
  fs::create_directory(path("taken"));
  EXPECT_EQ(error_of(ErrorCode::kFailed, [&] { write_file_atomically(path("taken"), as_span("x")); }),
            path("taken") + ": is a folder, not a file");
  EXPECT_EQ(entries(), 1u);
}

// A limit on the size of files stands for a full disk: some of the bytes go out, the rest do not.
TEST_F(Files, AFullDiskLeavesTheOldFile) {
  put("a", "old");
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {.rlim_cur = 5000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error =
      error_of(ErrorCode::kFailed, [&] { write_file_atomically(path("a"), as_span(std::string(8000, 'x'))); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(error, path("a") + ": cannot write: File too large");
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace gabbro
