// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace gabbro {

class MappedFile {
 public:
  // Throws bad_input for a missing, unreadable, empty or non-regular file, naming it.
  explicit MappedFile(const std::string& path);
  // Takes over memory that was mapped otherwise; `name` is what messages call it. `release` may be called for it: its
  // pages have to be those of a file, or shared.
  MappedFile(const std::string& name, void* memory, size_t size) : path_(name), data_(memory), size_(size) {}
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  const std::string& path() const { return path_; }

  // Tells the kernel that this part will be read soon, or is not needed again (its pages then leave our resident size).
  void will_need(size_t offset, size_t size) const;
  void release(size_t offset, size_t size) const;

 private:
  std::string path_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// The whole of a text file. Throws bad_input as above, except that an empty file is fine; `limit` bounds its size.
std::string read_file(const std::string& path, size_t limit = size_t{1} << 30);

// Writes to a temporary file next to `path`, syncs and renames: either the whole file is there or the old one is. A
// symbolic link keeps its name and its target is replaced. A pipe or a device is written to as it is.
// Throws failed() when the disk is full or the directory cannot be written.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);

// The same for a file in several pieces.
void write_file_atomically(const std::string& path, std::span<const std::span<const std::byte>> pieces);

}  // namespace gabbro
