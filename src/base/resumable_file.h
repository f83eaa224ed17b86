// A file that is written in parts, in any order and by several threads, and can be continued after an interruption.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>

namespace gabbro {

// The parts are in PATH.partial, and the names of those that are complete in PATH.partial.parts. `finish` gives the
// file its name: before, nothing is there under it.
class ResumableFile {
 public:
  // Continues where both files are there and were begun with the same `recipe` (one line: everything that decides the
  // contents) and size; else starts over. Throws failed() where the folder cannot be written, or has no room for
  // `bytes`.
  ResumableFile(const std::string& path, const std::string& recipe, uint64_t bytes);
  ~ResumableFile();
  ResumableFile(const ResumableFile&) = delete;
  ResumableFile& operator=(const ResumableFile&) = delete;

  bool has(const std::string& part) const { return parts_.contains(part); }
  size_t parts_found() const { return found_; }  // of an earlier attempt

  // Both throw failed(): a full disk. A complete part is found again when the program was interrupted; when it was
  // killed, or the machine stopped, parts of the last second may not be.
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void complete(const std::string& part);

  void finish();  // syncs and renames

 private:
  void begin(const std::string& recipe);
  bool note_parts(const std::string& names);
  bool read_parts(const std::string& recipe);
  [[noreturn]] void fail(const char* what) const;

  std::string path_, partial_, list_;
  uint64_t bytes_;
  int data_ = -1, names_ = -1;  // descriptors
  std::set<std::string> parts_;
  std::string unsynced_;  // names of complete parts, a line each, that may not be on the disk
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
  size_t found_ = 0;
  std::mutex mutex_;
};

}  // namespace gabbro
