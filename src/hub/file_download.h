// One file of a download: what is missing of it, its hash so far, and where its bytes come from.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "src/hub/digest.h"
#include "src/hub/incomplete_file.h"
#include "src/hub/listing.h"
#include "src/hub/repo_cache.h"

namespace gabbro::hub {

class FileDownload {
 public:
  // To be read over that many connections.
  FileDownload(const RepoCache& cache, RepoFile file, int connections);

  const RepoFile& file() const { return file_; }

  enum class Start { kOpened, kPresent, kLocked };
  // kOpened: this process has the lock, and todo is what is missing. kPresent: the blob is there. kLocked: another
  // process downloads it.
  Start start();
  // The blob is there already. Files of older programs are not hashed again.
  bool is_present() const;

  // The scheduler's part; its mutex guards these.
  std::deque<ByteRange> todo;
  int running = 0;
  bool finished = false;
  bool whole_only = false;  // the server answers with the whole file where a range was asked for

  // Any thread may write a range that it was given.
  IncompleteFile& data() { return *data_; }

  // Hashes what has arrived in order. `wait`: also where another thread is at it, to the end of what is there.
  void hash_arrived(bool wait);
  // All has arrived: checks the hash and puts the blob in place, and releases the lock. False where the hash was wrong,
  // some of the file came from an earlier download, and all of it is now to do again. Throws failed() where the hash
  // is wrong.
  bool finish();

  // The address that the last redirect led to; empty: not known.
  std::string location() const;
  void set_location(const std::string& location);

 private:
  void begin_hash();
  void queue_missing();

  const RepoCache& cache_;
  const RepoFile file_;
  const int connections_;
  std::optional<FileLock> lock_;
  std::unique_ptr<IncompleteFile> data_;
  bool resumed_ = false;
  std::mutex hash_mutex_;
  std::unique_ptr<Digest> digest_;
  uint64_t hashed_ = 0;
  mutable std::mutex location_mutex_;
  std::string location_;
};

}  // namespace gabbro::hub
