// The mapped files that the handler of gabbro/file_faults.h knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "gabbro/file_faults.h"

namespace gabbro {

struct FaultSlot;

// A file's size and the time of its last write.
struct FileStamp {
  int64_t size = 0, seconds = 0, nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};

// False, with errno, where the descriptor cannot be asked. Safe in a signal handler.
bool read_stamp(int descriptor, FileStamp* stamp);

// Addresses that are a file's, while it lives.
class FaultGuard {
 public:
  struct Range {
    const void* begin;
    size_t size;
    const char* name;  // stays where it is
    int descriptor;
    FileStamp stamp;  // when it was opened
  };

  explicit FaultGuard(const Range& range);
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  bool had_fault() const;  // FileFault::kThrow: zeros were read in place of the file's bytes

 private:
  FaultSlot* slot_;  // null: there are too many
};

// The name of the file that is mapped at this address; empty: none.
std::string mapped_file_at(const void* address);

}  // namespace gabbro
