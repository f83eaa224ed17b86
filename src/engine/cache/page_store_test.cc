#include "src/engine/cache/page_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/engine/cache/page_pool.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Groups = std::vector<std::vector<std::byte>>;

Groups some_bytes(int seed, size_t size = 1000) {
  Groups groups(2);
  for (size_t i = 0; i < size; ++i) groups[0].push_back(static_cast<std::byte>(i * 7 + static_cast<size_t>(seed)));
  groups[1].assign(3, static_cast<std::byte>(seed));
  return groups;
}

std::vector<int32_t> some_tokens(int first, int64_t pages = 1) {
  std::vector<int32_t> tokens(static_cast<size_t>(pages * PagePool::kTokens));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

class PageStores : public testing::Test {
 protected:
  ~PageStores() override { fs::remove_all(folder_); }

  std::unique_ptr<PageStore> open(const std::string& identity = "model", uint64_t bytes = uint64_t{1} << 30) {
    return std::make_unique<PageStore>(
        PageStoreOptions{.folder = folder_.string(), .bytes = bytes, .identity = identity});
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& file : fs::directory_iterator(folder_)) found.push_back(file.path());
    return found;
  }
  uint64_t bytes_of_files() const {
    uint64_t bytes = 0;
    for (const fs::path& file : files()) bytes += fs::file_size(file);
    return bytes;
  }

  const fs::path folder_ = fs::temp_directory_path() / ("gabbro_page_store_" + std::to_string(::getpid())) / "pages";
  const std::vector<int32_t> tokens_ = some_tokens(1);
};

TEST_F(PageStores, PagesComeBackInALaterProcess) {
  {
    const auto store = open();
    EXPECT_FALSE(store->has({"", tokens_}));
    EXPECT_FALSE(store->read({"", tokens_}));
    EXPECT_FALSE(store->touch({"", tokens_}));
    EXPECT_TRUE(store->write({"", tokens_}, some_bytes(1)));
  }  // writes what is pending
  const auto store = open();
  EXPECT_TRUE(store->has({"", tokens_}));
  EXPECT_TRUE(store->touch({"", tokens_}));
  EXPECT_EQ(store->read({"", tokens_}), some_bytes(1));
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
}

TEST_F(PageStores, OtherTokensTreesAndModelsHaveTheirOwn) {
  const auto store = open();
  store->write({"", tokens_}, some_bytes(1));
  store->flush();
  EXPECT_FALSE(store->read({"tree", tokens_}));
  EXPECT_FALSE(store->read({"", some_tokens(2)}));
  EXPECT_FALSE(store->read({"", some_tokens(1, 2)}));
  EXPECT_FALSE(open("another")->read({"", tokens_}));
  // Under the name of the page, too: the name proves nothing.
  const fs::path file = files().front();
  const auto other = open("another");
  other->write({"", tokens_}, some_bytes(2));
  other->flush();
  for (const fs::path& path : files()) {
    if (path != file) fs::copy_file(file, path, fs::copy_options::overwrite_existing);
  }
  EXPECT_FALSE(other->read({"", tokens_}));
  EXPECT_TRUE(store->read({"", tokens_}));
}

TEST_F(PageStores, AFileThatIsCutOrChangedCostsItsEntryAlone) {
  const auto store = open();
  const std::vector<int32_t> other = some_tokens(500);
  store->write({"", other}, some_bytes(2));
  store->flush();
  store->write({"", tokens_}, some_bytes(1));
  store->flush();
  const fs::path path = [&] {
    for (const fs::path& file : files()) {
      std::ifstream content(file, std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(content)), {});
      const auto* const first = reinterpret_cast<const char*>(tokens_.data());
      if (bytes.find(std::string(first, tokens_.size() * sizeof(int32_t))) != std::string::npos) return file;
    }
    return fs::path();
  }();
  std::ifstream content(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(content)), {});
  ASSERT_GT(whole.size(), 1000U);
  for (size_t at = 0; at < whole.size(); at += 13) {
    for (const bool cut : {false, true}) {
      std::string bytes = whole;
      cut ? bytes.resize(at) : void(bytes[at] ^= 0x10);
      std::ofstream(path, std::ios::binary) << bytes;
      EXPECT_FALSE(store->read({"", tokens_})) << at << cut;
      EXPECT_FALSE(fs::exists(path));
    }
  }
  std::ofstream(path, std::ios::binary) << whole << "x";
  EXPECT_FALSE(store->read({"", tokens_}));
  EXPECT_EQ(store->read({"", other}), some_bytes(2));
  EXPECT_TRUE(store->write({"", tokens_}, some_bytes(1)));
  store->flush();
  EXPECT_TRUE(store->read({"", tokens_}));
}

TEST_F(PageStores, TheOnesUsedLongestAgoMakeRoom) {
  constexpr uint64_t kLimit = 20'000;
  const auto store = open("model", kLimit);
  std::vector<std::vector<int32_t>> all;
  for (int i = 0; i < 30; ++i) {
    all.push_back(some_tokens(1000 * i));
    EXPECT_TRUE(store->write({"", all.back()}, some_bytes(i)));
    store->flush();
    EXPECT_TRUE(store->touch({"", all.front()}));
    EXPECT_LE(bytes_of_files(), kLimit);
  }
  EXPECT_TRUE(store->has({"", all.front()}));
  EXPECT_FALSE(store->has({"", all[1]}));
  EXPECT_TRUE(store->has({"", all.back()}));
  EXPECT_FALSE(store->write({"", some_tokens(7)}, some_bytes(1, kLimit)));  // larger than all of it
  EXPECT_LE(files().size(), 18U);
  open("model", 5'000);  // a smaller limit holds from the start
  EXPECT_LE(bytes_of_files(), 5'000U);
}

TEST_F(PageStores, TheEndOfATextGoesBeforeItsBeginning) {
  const auto store = open("model", 20'000);
  const std::vector<int32_t> text = some_tokens(1, 8);
  const auto begin = [&](size_t pages) {
    return std::span(text).first(pages * static_cast<size_t>(PagePool::kTokens));
  };
  for (size_t pages = 1; pages <= 8; ++pages) store->write({"", begin(pages)}, some_bytes(1));
  store->flush();
  for (size_t pages = 1; pages <= 8; ++pages) store->touch({"", begin(pages)});
  for (int i = 1; i < 8; ++i) store->write({"", some_tokens(1000 * i)}, some_bytes(i));
  store->flush();
  bool is_there = true;
  for (size_t pages = 1; pages <= 8; ++pages) {
    if (!store->has({"", begin(pages)})) is_there = false;
    EXPECT_EQ(store->has({"", begin(pages)}), is_there) << pages;
  }
  EXPECT_FALSE(is_there);
}

TEST_F(PageStores, TemporaryFilesOfKilledProcessesAreRemoved) {
  open();
  const fs::path old = folder_ / "0123.page.tmp", present = folder_ / "4567.page.tmp";
  std::ofstream(old) << "x";
  std::ofstream(present) << "x";
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  open();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(present));  // a process may be writing it
}

TEST_F(PageStores, AFolderThatCannotBeIsRefused) {
  fs::create_directories(folder_.parent_path());
  std::ofstream(folder_) << "a file";
  EXPECT_THROW(open(), Error);
}

}  // namespace
}  // namespace gabbro
