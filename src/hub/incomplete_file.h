// A file that is being downloaded, in pieces that may arrive in any order. A table after the data says which pieces are
// there, so that a download that was killed goes on where it was.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/hub/http.h"

namespace gabbro::hub {

class IncompleteFile {
 public:
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

  // Opens what an earlier download of `size` bytes left at `path`, or begins. Throws failed().
  IncompleteFile(const std::string& path, uint64_t size);
  ~IncompleteFile();
  IncompleteFile(const IncompleteFile&) = delete;
  IncompleteFile& operator=(const IncompleteFile&) = delete;

  uint64_t size() const { return size_; }
  uint64_t bytes_done() const;  // of whole pieces
  uint64_t frontier() const;    // all bytes before this one are there
  bool is_complete() const { return frontier() == size_; }
  // The ranges that are missing, in order, each of at most `most` bytes.
  std::vector<ByteRange> missing(uint64_t most) const;

  // Writes below size() at `offset`; throws failed() on a full disk. Calls may come from several threads, for different
  // ranges.
  void write(uint64_t offset, std::span<const std::byte> bytes);
  // All bytes of the range were written: marks the pieces that are whole in it. `range` begins at a piece.
  void mark(ByteRange range);
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  void forget();  // marks all pieces as missing

  // Removes the table, syncs, and renames to `path`: either the whole file is there or nothing.
  void finish(const std::string& path);

 private:
  uint64_t table_begin() const { return size_; }
  void begin();
  void resume(uint64_t file_bytes);
  uint64_t end_of(size_t piece) const;

  std::string path_;
  uint64_t size_;
  int file_ = -1;
  mutable std::mutex mutex_;
  std::vector<char> done_;  // one per piece
  mutable size_t first_missing_ = 0;
};

}  // namespace gabbro::hub
