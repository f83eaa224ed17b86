#include "src/hub/file_download.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace gabbro::hub {

FileDownload::FileDownload(const RepoCache& cache, RepoFile file, int connections)
    : cache_(cache), file_(std::move(file)), connections_(connections) {}

bool FileDownload::is_present() const {
  std::error_code ignored;
  const std::string blob = cache_.blob(file_.blob);
  return std::filesystem::is_regular_file(blob, ignored) && std::filesystem::file_size(blob, ignored) == file_.size;
}

FileDownload::Start FileDownload::start() {
  if (is_present()) return Start::kPresent;
  lock_ = FileLock::try_lock(cache_.lock(file_.blob));
  if (!lock_) return Start::kLocked;
  if (is_present()) {
    lock_.reset();
    return Start::kPresent;
  }
  data_ = std::make_unique<IncompleteFile>(cache_.incomplete(file_.blob), file_.size);
  resumed_ = data_->bytes_done() > 0;
  begin_hash();
  queue_missing();
  return Start::kOpened;
}

void FileDownload::queue_missing() {
  // Two requests for each connection, so that none is idle at the end; but not so small that the time until the first
  // byte of each counts.
  constexpr uint64_t kLeast = 4 * IncompleteFile::kPieceBytes, kMost = 64 * IncompleteFile::kPieceBytes;
  const uint64_t most = std::clamp(file_.size / (2 * static_cast<uint64_t>(connections_)), kLeast, kMost);
  const std::vector<ByteRange> ranges = data_->missing(most);
  todo.assign(ranges.begin(), ranges.end());
}

void FileDownload::begin_hash() {
  hashed_ = 0;
  digest_ = std::make_unique<Digest>(file_.lfs ? Digest::Kind::kSha256 : Digest::Kind::kSha1);
  if (file_.lfs) return;
  // git hashes "blob SIZE" and a zero byte before the content.
  const std::string header = fmt::format("blob {}", file_.size) + '\0';
  digest_->update(std::as_bytes(std::span(header)));
}

void FileDownload::hash_arrived(bool wait) {
  std::unique_lock lock(hash_mutex_, std::defer_lock);
  if (wait) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;
  }
  std::vector<std::byte> buffer(IncompleteFile::kPieceBytes);
  for (uint64_t end = data_->frontier(); hashed_ < end; end = data_->frontier()) {
    const std::span<std::byte> bytes = std::span(buffer).first(std::min<uint64_t>(buffer.size(), end - hashed_));
    data_->read(hashed_, bytes);
    digest_->update(bytes);
    hashed_ += bytes.size();
  }
}

bool FileDownload::finish() {
  hash_arrived(true);
  const std::string hash = digest_->finish();
  if (hash == file_.blob) {
    data_->finish(cache_.blob(file_.blob));
    data_.reset();
    lock_.reset();
    return true;
  }
  data_->forget();
  if (!resumed_) {
    ::unlink(cache_.incomplete(file_.blob).c_str());
    throw Error(ErrorCode::kFailed,
                fmt::format("{}: the downloaded file has {} {}, the Hub says {}", file_.path,
                            file_.lfs ? "SHA-256" : "git hash", hash, file_.blob),
                "the download was damaged on its way; try again");
  }
  resumed_ = false;
  begin_hash();
  queue_missing();
  return false;
}

std::string FileDownload::location() const {
  const std::lock_guard lock(location_mutex_);
  return location_;
}

void FileDownload::set_location(const std::string& location) {
  const std::lock_guard lock(location_mutex_);
  location_ = location;
}

}  // namespace gabbro::hub
