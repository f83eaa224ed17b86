// Pages of the cache on disk, by the beginning of a text that they hold, so that later processes take them over. Files
// are written by a thread, each under a temporary name, synced and renamed; a file that is cut or changed counts as
// missing and is removed.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace gabbro {

struct PageStoreOptions {
  std::string folder;      // made with mode 0700; empty: none
  uint64_t bytes = 0;      // of all files in the folder, at most; beyond it those that were used longest ago go
  std::string identity{};  // of the model, the kind and the layout of its cache: other files are not read
};

// The beginning of a text in whole pages.
struct PageKey {
  std::string tree;  // of texts that may share pages
  std::span<const int32_t> tokens;
};

class PageStore {
 public:
  // Throws bad_input for a folder that cannot be made or read.
  explicit PageStore(PageStoreOptions options);
  ~PageStore();  // writes what is pending

  bool has(const PageKey& key) const;
  // Notes that the page is in use. False: there is none.
  bool touch(const PageKey& key) const;
  // The bytes of the page in each group of layers, empty for groups that did not have it any more. Nothing: there is
  // none, or it is damaged, of other tokens or of another model.
  std::optional<std::vector<std::vector<std::byte>>> read(const PageKey& key) const;
  // Writes it later. False: too much is pending, and it is not written.
  bool write(const PageKey& key, std::vector<std::vector<std::byte>> groups);
  void flush();  // waits until nothing is pending

 private:
  struct Pending {
    std::string path;
    std::vector<std::byte> head;
    std::vector<std::vector<std::byte>> groups;
    size_t bytes = 0;
    int64_t page = 0;  // its index in the text
  };

  std::string path_of(const PageKey& key) const;
  std::vector<std::byte> head_of(const PageKey& key, std::span<const std::vector<std::byte>> groups) const;
  void run();
  void write_file(const Pending& pending);
  void shrink();

  const PageStoreOptions options_;
  uint64_t total_ = 0;  // bytes of the files, as far as this process knows; of the thread, and of the constructor
  std::mutex mutex_;    // of all below
  std::condition_variable wake_, idle_;
  std::deque<Pending> pending_;
  size_t pending_bytes_ = 0;
  bool writes_ = false, stops_ = false;
  std::thread thread_;
};

}  // namespace gabbro
