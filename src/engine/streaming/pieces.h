// The reads that bring a matrix from its files: aligned for O_DIRECT, and cut so that each piece can be packed alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/async_reader.h"
#include "src/models/weights/streamed_weights.h"

namespace gabbro::streaming {

// Offsets, sizes and addresses of direct reads are multiples of this: the largest logical block of disks in use.
inline constexpr size_t kReadAlignment = 4096;

// One read, to byte `at` of a piece's buffer.
struct Segment {
  int file = 0;         // number in Files
  uint64_t offset = 0;  // aligned
  size_t bytes = 0;     // aligned; may reach beyond the end of the file
  size_t needed = 0;    // of these, at least
  size_t at = 0;        // aligned
};

// Rows [first_row, first_row + rows) of a matrix.
struct Piece {
  std::vector<Segment> segments;
  int64_t first_row = 0, rows = 0;
  size_t skip = 0;               // where the first row begins in the buffer
  std::vector<uint32_t> row_at;  // where each row begins, if they do not follow each other or are not aligned
  size_t buffer_bytes() const { return segments.back().at + segments.back().bytes; }
};

// The files of a model, opened for reading past the page cache where that is possible.
class Files {
 public:
  Files() = default;
  ~Files();
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  // Its number. Throws bad_input where the file cannot be opened, or is not the one that is mapped.
  int add(const std::shared_ptr<const MappedFile>& mapped);
  int descriptor(int file) const { return files_[static_cast<size_t>(file)].descriptor; }
  const std::string& path(int file) const { return files_[static_cast<size_t>(file)].mapped->path(); }
  size_t count() const { return files_.size(); }
  bool direct() const;  // all of them
  // The file that holds this address of a mapped file, and the offset there.
  Segment find(const std::byte* address) const;
  // Throws failed() that names a file that has changed since it was opened.
  void require_unchanged() const;
  // Whether all that is needed of a segment has arrived, after a read that ended with `result`; if not, `asked` becomes
  // the read of the rest. Throws failed() that names the file where it could not be read, or is too short.
  bool is_whole(const Segment& segment, int64_t result, FileRead& asked) const;
  // Buffered reads leave pages behind; they are not needed again.
  void forget_pages(const Segment& segment) const;

 private:
  struct File {
    std::shared_ptr<const MappedFile> mapped;
    int descriptor = -1;
    bool direct = false;
  };
  std::vector<File> files_;
};

// Pieces of at most `piece_bytes` where rows are as small; a multiple of `row_multiple` rows each, but the last.
std::vector<Piece> cut(const llm::MatrixInFiles& matrix, Files& files, size_t piece_bytes, int64_t row_multiple);

// Pieces that may be read to the matrix itself: rows follow each other, and byte b of the matrix goes to an address
// that is b + `skip` after an aligned one. Empty where the rows are stored otherwise.
std::vector<Piece> cut_in_place(const llm::MatrixInFiles& matrix, Files& files, size_t piece_bytes);

}  // namespace gabbro::streaming
