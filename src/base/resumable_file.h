// A file that is written in parts, in any order and by several threads, and can be continued after an interruption.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>

namespace gabbro {

// The parts are in PATH.partial, and the names of complete parts in PATH.partial.parts; PATH is the target of a link.
// `finish` gives the file its name: before, nothing is there under it. The list is locked: one process writes the file
// at a time.
class ResumableFile {
 public:
  // Continues if both files are there and were begun with the same `recipe` (one line: everything that decides the
  // contents) and size; else starts over. Throws bad_input if another process writes the file, or PATH.partial is not
  // one of this class; failed() for a folder that cannot be written, or without room for `bytes`.
  ResumableFile(const std::string& path, const std::string& recipe, uint64_t bytes);
  ~ResumableFile();
  ResumableFile(const ResumableFile&) = delete;
  ResumableFile& operator=(const ResumableFile&) = delete;

  // The digest with which a part was completed; nothing if it is not complete. Names and digests have no white space.
  std::optional<std::string> digest_of(const std::string& part) const;
  size_t parts_found() const { return found_; }  // of an earlier attempt
  // Forgets a part of an earlier attempt whose bytes do not match its digest.
  void drop(const std::string& part);

  // All throw failed(): a full disk. A complete part is found again when the program was interrupted; when it was
  // killed, or the machine stopped, parts of the last second may not be.
  void write(uint64_t offset, std::span<const std::byte> bytes);
  void read(uint64_t offset, std::span<std::byte> bytes) const;
  void complete(const std::string& part, const std::string& digest);

  const std::string& partial_path() const { return partial_; }
  void sync();
  // Syncs and renames. If `replaces` is false and there is a file at the path by now, throws bad_input.
  void finish(bool replaces);
  void discard();  // removes both files

 private:
  void require_room() const;
  void lock_list();
  void open_data();
  void start_over(const std::string& recipe);
  bool note_parts(const std::string& names);
  bool read_parts(const std::string& recipe);
  void close();
  [[noreturn]] void fail(const char* what) const;

  std::string path_, target_, partial_, list_;  // the target: of a link at the path
  uint64_t bytes_;
  int data_ = -1, names_ = -1;                // descriptors
  std::map<std::string, std::string> parts_;  // their digests
  std::string unsynced_;                      // lines of complete parts that may not be on the disk
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
  size_t found_ = 0;
  mutable std::mutex mutex_;  // of parts_, unsynced_ and synced_
};

}  // namespace gabbro
