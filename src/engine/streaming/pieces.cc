#include "src/engine/streaming/pieces.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "src/base/error.h"
#include "src/base/round_up.h"

namespace gabbro::streaming {
namespace {

constexpr size_t kLargestGap = 65536;  // that is read rather than skipped: a request costs as much

size_t row_bytes_of(const llm::MatrixInFiles& matrix) {
  return dtype_bytes(matrix.dtype, static_cast<size_t>(matrix.columns));
}

bool is_aligned_row(const llm::MatrixInFiles& matrix, size_t at) {
  constexpr size_t kOfBlocks = 8;
  return at % (is_quantized(matrix.dtype) ? kOfBlocks : dtype_info(matrix.dtype).block_bytes) == 0;
}

bool is_same_file(int descriptor, const MappedFile& mapped) {
  struct stat opened = {}, there = {};
  return ::fstat(descriptor, &opened) == 0 && ::fstat(mapped.descriptor(), &there) == 0 &&
         opened.st_dev == there.st_dev && opened.st_ino == there.st_ino;
}

// Whether an aligned part of the file can be read directly, and is what is mapped.
bool reads(int descriptor, const MappedFile& mapped) {
  void* const page = std::aligned_alloc(kReadAlignment, kReadAlignment);
  const ssize_t got = ::pread(descriptor, page, kReadAlignment, 0);
  const size_t wanted = std::min(kReadAlignment, mapped.bytes().size());
  const bool same =
      got >= 0 && static_cast<size_t>(got) >= wanted && std::memcmp(page, mapped.bytes().data(), wanted) == 0;
  std::free(page);
  return same;
}

// Appends a read of the bytes [first, last) of a mapped file. Returns where `first` is in the buffer.
size_t add_segment(Piece& piece, const Files& files, const std::byte* first, size_t bytes) {
  Segment segment = files.find(first);
  const size_t before = segment.offset % kReadAlignment;
  segment.offset -= before;
  segment.needed = before + bytes;
  segment.bytes = round_up(segment.needed, kReadAlignment);
  segment.at = piece.segments.empty() ? 0 : piece.buffer_bytes();
  piece.segments.push_back(segment);
  return segment.at + before;
}

Piece piece_of(const llm::MatrixInFiles& matrix, const Files& files, int64_t first, int64_t rows) {
  const size_t row_bytes = row_bytes_of(matrix);
  std::vector<const std::byte*> starts(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) starts[static_cast<size_t>(i)] = matrix.row(first + i);
  std::vector<size_t> order(starts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return starts[i]; });
  Piece piece{.first_row = first, .rows = rows};
  piece.row_at.resize(starts.size());
  for (size_t i = 0; i < order.size();) {
    const std::byte* const begin = starts[order[i]];
    size_t end = i + 1;
    while (end < order.size() && starts[order[end]] <= starts[order[end - 1]] + row_bytes + kLargestGap &&
           files.find(starts[order[end]]).file == files.find(begin).file) {
      ++end;
    }
    const auto bytes = static_cast<size_t>(starts[order[end - 1]] - begin) + row_bytes;
    const size_t at = add_segment(piece, files, begin, bytes);
    for (; i < end; ++i)
      piece.row_at[order[i]] = static_cast<uint32_t>(at + static_cast<size_t>(starts[order[i]] - begin));
  }
  piece.skip = piece.row_at.front();
  bool in_order = is_aligned_row(matrix, piece.skip);
  for (size_t i = 1; i < piece.row_at.size() && in_order; ++i)
    in_order = piece.row_at[i] == piece.row_at[i - 1] + row_bytes;
  if (in_order) piece.row_at.clear();
  return piece;
}

}  // namespace

Files::~Files() {
  for (const File& file : files_) ::close(file.descriptor);
}

int Files::add(const std::shared_ptr<const MappedFile>& mapped) {
  for (size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].mapped == mapped) return static_cast<int>(i);
  }
  const std::string& path = mapped->path();
  File file{.mapped = mapped};
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  file.direct = file.descriptor >= 0 && reads(file.descriptor, *mapped);
  if (!file.direct) {  // some file systems refuse it when the file is opened, others when it is read
    if (file.descriptor >= 0) ::close(file.descriptor);
    file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file.descriptor < 0) throw bad_input("{}: cannot be streamed: {}", path, std::strerror(errno));
  }
  files_.push_back(file);
  mapped->require_unchanged();
  const bool same = is_same_file(file.descriptor, *mapped) && (file.direct || reads(file.descriptor, *mapped));
  if (!same) throw bad_input("{}: the file has changed while it was loaded", path);
  return static_cast<int>(files_.size()) - 1;
}

bool Files::direct() const {
  return std::ranges::all_of(files_, [](const File& file) { return file.direct; });
}

Segment Files::find(const std::byte* address) const {
  for (size_t i = 0; i < files_.size(); ++i) {
    const std::span<const std::byte> bytes = files_[i].mapped->bytes();
    if (address >= bytes.data() && address < bytes.data() + bytes.size())
      return {.file = static_cast<int>(i), .offset = static_cast<uint64_t>(address - bytes.data())};
  }
  throw failed("a weight is in none of its files");
}

void Files::require_unchanged() const {
  for (const File& file : files_) file.mapped->require_unchanged();
}

bool Files::is_whole(const Segment& segment, int64_t result, FileRead& asked) const {
  const std::string& path = this->path(segment.file);
  if (result < 0 && result != -EINTR && result != -EAGAIN) {
    throw failed("{}: cannot read {} bytes at byte {}: {}", path, asked.bytes, asked.offset,
                 std::strerror(static_cast<int>(-result)));
  }
  const auto got = static_cast<size_t>(std::max<int64_t>(result, 0));
  const uint64_t end = asked.offset + got;
  if (end >= segment.offset + segment.needed) return true;
  const size_t whole = got / kReadAlignment * kReadAlignment;
  if (whole == 0 && result >= 0) {
    throw failed("{}: the file ends at byte {}, its weights at byte {} or later: it was truncated", path, end,
                 segment.offset + segment.needed);
  }
  asked.offset += whole;
  asked.target += whole;
  asked.bytes -= whole;
  return false;
}

void Files::forget_pages(const Segment& segment) const {
  const File& file = files_[static_cast<size_t>(segment.file)];
  if (file.direct) return;
  ::posix_fadvise(file.descriptor, static_cast<off_t>(segment.offset), static_cast<off_t>(segment.bytes),
                  POSIX_FADV_DONTNEED);
}

std::vector<Piece> cut(const llm::MatrixInFiles& matrix, Files& files, size_t piece_bytes, int64_t row_multiple) {
  for (const auto& file : matrix.files) files.add(file);
  const auto fitting = static_cast<int64_t>(piece_bytes / row_bytes_of(matrix)) / row_multiple * row_multiple;
  const int64_t step = std::max(fitting, row_multiple);
  std::vector<Piece> pieces;
  for (int64_t row = 0; row < matrix.rows; row += step)
    pieces.push_back(piece_of(matrix, files, row, std::min(step, matrix.rows - row)));
  return pieces;
}

std::vector<Piece> cut_in_place(const llm::MatrixInFiles& matrix, Files& files, size_t piece_bytes) {
  for (const auto& file : matrix.files) files.add(file);
  const size_t row_bytes = row_bytes_of(matrix);
  const std::byte* const first = matrix.row(0);
  for (int64_t i = 1; i < matrix.rows; ++i) {
    if (matrix.row(i) != first + static_cast<size_t>(i) * row_bytes) return {};
  }
  Piece whole;
  const size_t skip = add_segment(whole, files, first, static_cast<size_t>(matrix.rows) * row_bytes);
  if (!is_aligned_row(matrix, skip)) return {};
  const Segment all = whole.segments.front();
  std::vector<Piece> pieces;
  const size_t step = round_up(piece_bytes, kReadAlignment);
  for (size_t at = 0; at < all.bytes; at += step) {
    Segment part = all;
    part.offset = all.offset + at;
    part.at = at;
    part.bytes = std::min(step, all.bytes - at);
    part.needed = std::min(part.bytes, all.needed - at);
    pieces.push_back({.segments = {part}, .skip = skip});
  }
  return pieces;
}

}  // namespace gabbro::streaming
