#include "src/engine/cache/page_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include "src/base/digest.h"
#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/engine/cache/page_pool.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

// Raised when the layout of files, or of pages in memory, changes.
constexpr uint32_t kLayout = 1;
constexpr char kMagic[8] = {'G', 'A', 'B', 'B', 'R', 'O', 'K', 'V'};
constexpr size_t kMostPending = size_t{256} << 20;  // bytes of pages in memory; a prompt beyond them is not stored
constexpr const char* kExtension = ".page";
constexpr auto kOldTemporary = std::chrono::hours(1);  // no process writes a page for so long

struct Head {
  char magic[8];
  uint32_t layout;
  uint32_t groups;
  uint64_t identity_bytes, tree_bytes, tokens;
};
struct GroupHead {
  uint64_t bytes, digest;
};

void append(std::vector<std::byte>& to, const void* from, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

uint64_t key_digest(const std::string& identity, const PageKey& key, uint64_t seed) {
  uint64_t digest = digest_of(std::as_bytes(std::span(identity)), seed);
  digest = digest_of(std::as_bytes(std::span(key.tree)), digest);
  return digest_of(std::as_bytes(key.tokens), digest);
}

class File {
 public:
  explicit File(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (file_ >= 0) ::close(file_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return file_ >= 0; }
  uint64_t size() const {
    struct stat info = {};
    return ::fstat(file_, &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
  }
  bool read(std::span<std::byte> to, uint64_t offset) const {
    while (!to.empty()) {
      const ssize_t got = ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      to = to.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return true;
  }

 private:
  const int file_;
};

constexpr int64_t kPageOrder = 20'000'000;  // nanoseconds: more than noting the use of a page takes

bool set_used(const std::string& path, int64_t page) {
  // The last pages of a text go first: they are of no use without the pages before them.
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const int64_t nanoseconds = now.tv_sec * 1'000'000'000 + now.tv_nsec - page * kPageOrder;
  const timespec time = {nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  const timespec times[] = {time, time};
  return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0;
}

struct StoredFile {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};

// Removes temporary files that processes left which were killed.
std::vector<StoredFile> list_files(const std::string& folder) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const uint64_t bytes = at->file_size(gone);
    const auto used = at->last_write_time(gone);
    if (gone || !at->is_regular_file(gone)) continue;
    if (at->path().extension() == kExtension) {
      files.push_back({at->path(), bytes, used});
    } else if (at->path().string().find(kExtension) != std::string::npos &&
               fs::file_time_type::clock::now() - used > kOldTemporary) {
      fs::remove(at->path(), gone);
    }
  }
  return files;
}

}  // namespace

PageStore::PageStore(PageStoreOptions options) : options_(std::move(options)) {
  std::error_code error;
  if (fs::create_directories(options_.folder, error)) fs::permissions(options_.folder, fs::perms::owner_all, error);
  if (::access(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0 || !fs::is_directory(options_.folder, error))
    throw bad_input("--cache-dir: {} cannot be used as a folder", options_.folder);
  for (const StoredFile& file : list_files(options_.folder)) total_ += file.bytes;
  shrink();
  thread_ = std::thread([this] { run(); });
}

PageStore::~PageStore() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string PageStore::path_of(const PageKey& key) const {
  return fmt::format("{}/{:016x}{:016x}{}", options_.folder, key_digest(options_.identity, key, 1),
                     key_digest(options_.identity, key, 2), kExtension);
}

bool PageStore::has(const PageKey& key) const { return ::access(path_of(key).c_str(), R_OK) == 0; }

bool PageStore::touch(const PageKey& key) const {
  return set_used(path_of(key), std::ssize(key.tokens) / PagePool::kTokens);
}

// All that a reader compares: a page of other tokens, of another model or of another layout differs here.
std::vector<std::byte> PageStore::head_of(const PageKey& key, std::span<const std::vector<std::byte>> groups) const {
  Head head = {};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.layout = kLayout;
  head.groups = static_cast<uint32_t>(groups.size());
  head.identity_bytes = options_.identity.size();
  head.tree_bytes = key.tree.size();
  head.tokens = key.tokens.size();
  std::vector<std::byte> bytes;
  append(bytes, &head, sizeof head);
  append(bytes, options_.identity.data(), options_.identity.size());
  append(bytes, key.tree.data(), key.tree.size());
  append(bytes, key.tokens.data(), key.tokens.size_bytes());
  return bytes;
}

std::optional<std::vector<std::vector<std::byte>>> PageStore::read(const PageKey& key) const {
  const std::string path = path_of(key);
  const File file(path);
  if (!file.is_open()) return std::nullopt;
  const auto damaged = [&] {
    std::error_code error;
    fs::remove(path, error);
    return std::nullopt;
  };
  Head head = {};
  if (!file.read(std::as_writable_bytes(std::span(&head, 1)), 0)) return damaged();
  constexpr uint32_t kMostGroups = 1024;
  if (head.groups > kMostGroups) return damaged();
  std::vector<std::vector<std::byte>> groups(head.groups);
  const std::vector<std::byte> expected = head_of(key, groups);
  std::vector<std::byte> found(expected.size());
  if (!file.read(found, 0) || found != expected) return damaged();
  std::vector<GroupHead> sizes(head.groups);
  if (!file.read(std::as_writable_bytes(std::span(sizes)), found.size())) return damaged();
  uint64_t offset = found.size() + sizes.size() * sizeof(GroupHead);
  for (size_t group = 0; group < groups.size(); ++group) {
    if (sizes[group].bytes > file.size() || offset > file.size() - sizes[group].bytes) return damaged();
    groups[group].resize(sizes[group].bytes);
    if (!file.read(groups[group], offset) || digest_of(groups[group]) != sizes[group].digest) return damaged();
    offset += sizes[group].bytes;
  }
  if (offset != file.size()) return damaged();
  touch(key);
  return groups;
}

bool PageStore::write(const PageKey& key, std::vector<std::vector<std::byte>> groups) {
  Pending pending{
      .path = path_of(key), .head = head_of(key, groups), .page = std::ssize(key.tokens) / PagePool::kTokens};
  for (const std::vector<std::byte>& group : groups) {
    const GroupHead head = {group.size(), digest_of(group)};
    append(pending.head, &head, sizeof head);
    pending.bytes += group.size();
  }
  pending.bytes += pending.head.size();
  pending.groups = std::move(groups);
  {
    const std::lock_guard lock(mutex_);
    if (pending_bytes_ + pending.bytes > kMostPending || pending.bytes > options_.bytes) return false;
    pending_bytes_ += pending.bytes;
    pending_.push_back(std::move(pending));
  }
  wake_.notify_all();
  return true;
}

void PageStore::flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return pending_.empty() && !writes_; });
}

// --- The thread

void PageStore::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stops_ || !pending_.empty(); });
    if (pending_.empty()) return;
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    writes_ = true;
    lock.unlock();
    write_file(next);
    lock.lock();
    writes_ = false;
    pending_bytes_ -= next.bytes;
    if (pending_.empty()) idle_.notify_all();
  }
}

void PageStore::write_file(const Pending& pending) {
  std::vector<std::span<const std::byte>> pieces = {pending.head};
  pieces.insert(pieces.end(), pending.groups.begin(), pending.groups.end());
  try {
    if (::access(pending.path.c_str(), F_OK) == 0) return;
    write_file_atomically(pending.path, pieces);
    set_used(pending.path, pending.page);
    total_ += pending.bytes;
    shrink();
  } catch (const Error&) {
    // A full or read-only disk: the page is computed again.
  }
}

// Counts again where there seem to be too many bytes: other processes write to the folder too.
void PageStore::shrink() {
  if (total_ <= options_.bytes) return;
  std::vector<StoredFile> files = list_files(options_.folder);
  std::ranges::sort(files, {}, &StoredFile::used);
  total_ = 0;
  for (const StoredFile& file : files) total_ += file.bytes;
  // A tenth more, so that not each page costs a listing.
  const uint64_t wanted = options_.bytes - options_.bytes / 10;
  if (total_ <= options_.bytes) return;
  for (const StoredFile& file : files) {
    if (total_ <= wanted) return;
    std::error_code error;
    if (fs::remove(file.path, error)) total_ -= file.bytes;
  }
}

}  // namespace gabbro
