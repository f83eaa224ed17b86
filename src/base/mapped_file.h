// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/file_faults.h"

namespace gabbro {

class MappedFile {
 public:
  // Throws bad_input for a missing, unreadable, empty or non-regular file, naming it.
  explicit MappedFile(const std::string& path);
  // Takes over memory that was mapped otherwise; `name` is what messages call it. `release` may be called for it: its
  // pages must belong to a file, or be shared.
  MappedFile(const std::string& name, void* memory, size_t size) : path_(name), data_(memory), size_(size) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }  // -1: memory without a file

  // Tells the kernel that this part will be read soon, or is not needed again (its pages then leave our resident size).
  void will_need(size_t offset, size_t size) const;
  void release(size_t offset, size_t size) const;

  // Throws failed() that names the file where it was cut or written to since it was opened, or could not be read. A
  // file that was replaced by another of its name stays what it was. Costs a system call.
  void require_unchanged() const;
  // Makes the first bytes, and the rest of their page, a copy that stays unchanged if the file changes; then
  // require_unchanged(). For headers, whose readers rely on earlier checks; nothing is copied if they are
  // larger than 256 MiB.
  void detach(size_t bytes) const;

 private:
  std::string path_;
  void* data_ = nullptr;
  size_t size_ = 0;
  int descriptor_ = -1;
  FileStamp stamp_;
  std::optional<FaultGuard> guard_;
};

// Mapped files whose bytes may still be read in place.
class FilesInUse {
 public:
  void add(std::span<const std::shared_ptr<const MappedFile>> files) {
    files_.insert(files_.end(), files.begin(), files.end());
  }
  void require_unchanged() const;  // as MappedFile's, of those that something still holds

 private:
  std::vector<std::weak_ptr<const MappedFile>> files_;
};

// The whole of a text file. Throws bad_input as above, except that an empty file is fine; `limit` bounds its size; and
// failed() where the file changes meanwhile.
std::string read_file(const std::string& path, size_t limit = size_t{1} << 30);

// Writes to a temporary file next to `path`, syncs and renames: either the whole file is there or the old one is. A
// symbolic link keeps its name and its target is replaced. A pipe or a device is written to directly.
// Throws failed() when the disk is full or the directory cannot be written.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);

// Writes a file in several pieces, as above.
void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace gabbro
