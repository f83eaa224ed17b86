#include "src/hub/incomplete_file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "src/formats/gguf/gguf_test_support.h"
#include "src/hub/digest.h"

namespace gabbro::hub {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kPiece = IncompleteFile::kPieceBytes;

std::vector<std::byte> random_bytes(size_t size) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::vector<std::byte> content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class IncompleteFiles : public testing::Test {
 protected:
  void write(IncompleteFile& file, ByteRange range) const {
    file.write(range.begin, std::span(data_).subspan(range.begin, range.size()));
    file.mark(range);
  }

  gguf::TemporaryFolder folder_;
  const std::string path_ = folder_ / "x.incomplete";
  const uint64_t size_ = 3 * kPiece + 5;
  const std::vector<std::byte> data_ = random_bytes(size_);
};

TEST_F(IncompleteFiles, PiecesMayArriveInAnyOrderAndSurvive) {
  {
    IncompleteFile file(path_, size_);
    EXPECT_THAT(file.missing(2 * kPiece), ElementsAre(ByteRange{0, 2 * kPiece}, ByteRange{2 * kPiece, size_}));
    write(file, {3 * kPiece, size_});
    write(file, {kPiece, 2 * kPiece + 1});  // the second piece is whole, the third is not
    EXPECT_EQ(file.frontier(), 0u);
    EXPECT_EQ(file.bytes_done(), kPiece + 5);
  }
  IncompleteFile file(path_, size_);
  EXPECT_EQ(file.bytes_done(), kPiece + 5);
  EXPECT_THAT(file.missing(size_), ElementsAre(ByteRange{0, kPiece}, ByteRange{2 * kPiece, 3 * kPiece}));
  write(file, {0, kPiece});
  EXPECT_EQ(file.frontier(), 2 * kPiece);
  write(file, {2 * kPiece, 3 * kPiece});
  EXPECT_TRUE(file.is_complete());
  EXPECT_THAT(file.missing(size_), IsEmpty());
  file.finish(folder_ / "x");
  EXPECT_EQ(content_of(folder_ / "x"), data_);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(IncompleteFiles, AFileThatWasCutToItsSizeIsComplete) {
  std::ofstream(path_).write(reinterpret_cast<const char*>(data_.data()), static_cast<std::streamsize>(size_));
  EXPECT_TRUE(IncompleteFile(path_, size_).is_complete());
  IncompleteFile other(path_, size_ + 1);  // of another size: from the beginning
  EXPECT_EQ(other.bytes_done(), 0u);
}

TEST_F(IncompleteFiles, AnEmptyFileIsComplete) {
  IncompleteFile file(path_, 0);
  EXPECT_TRUE(file.is_complete());
  file.finish(folder_ / "x");
  EXPECT_EQ(std::filesystem::file_size(folder_ / "x"), 0u);
}

TEST_F(IncompleteFiles, AnythingElseInTheTableIsAMissingPiece) {
  {
    IncompleteFile file(path_, size_);
    write(file, {0, size_});
  }
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(size_ + 1));
  file.put('\x02');
  file.close();
  EXPECT_THAT(IncompleteFile(path_, size_).missing(size_), ElementsAre(ByteRange{kPiece, 2 * kPiece}));
  std::filesystem::resize_file(path_, size_ + 4);  // the mark of a valid table is gone
  EXPECT_EQ(IncompleteFile(path_, size_).bytes_done(), 0u);
}

TEST_F(IncompleteFiles, AFullDiskIsNamed) {
  rlimit before = {}, small = {};
  getrlimit(RLIMIT_FSIZE, &before);
  small = {2 * kPiece, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  std::string message;
  setrlimit(RLIMIT_FSIZE, &small);
  try {
    IncompleteFile file(path_, size_);
  } catch (const Error& error) {
    message = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kFailed);
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  EXPECT_EQ(message, path_ + ": cannot be written: File too large");
}

TEST_F(IncompleteFiles, ALinkIsNotFollowed) {
  std::filesystem::create_symlink(folder_ / "elsewhere", path_);
  EXPECT_THROW(IncompleteFile(path_, 1), Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "elsewhere"));
}

// FIPS 180-4's examples.
TEST(Digests, AreThoseOfTheStandard) {
  const auto hash = [](Digest::Kind kind, std::string_view text) {
    Digest digest(kind);
    for (const char& c : text) digest.update(std::as_bytes(std::span(&c, 1)));
    return digest.finish();
  };
  EXPECT_EQ(hash(Digest::Kind::kSha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash(Digest::Kind::kSha256, ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash(Digest::Kind::kSha1, "abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
}

}  // namespace
}  // namespace gabbro::hub
