// Reads of files that go on while the caller does other things: by io_uring, or by threads where the system refuses it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gabbro {

struct FileRead {
  int file = -1;  // descriptor
  uint64_t offset = 0;
  size_t bytes = 0;
  std::byte* target = nullptr;
  uint64_t tag = 0;  // the caller's
};

struct FinishedRead {
  uint64_t tag = 0;
  int64_t result = 0;  // bytes that were read, perhaps fewer than asked for; or -errno
};

// Not thread-safe. Targets and descriptors have to stay until the read has finished: a reader that is destroyed with
// reads under way waits for them.
class AsyncReader {
 public:
  virtual ~AsyncReader() = default;

  virtual void submit(const FileRead& read) = 0;  // at most `depth` at a time
  // Adds those that have finished; where none has, waits for the first of them, but no longer than `timeout`.
  virtual void wait(std::vector<FinishedRead>& finished, std::chrono::milliseconds timeout) = 0;
  virtual const char* name() const = 0;  // "io_uring", "threads"
};

// io_uring where the system has it, else threads; GABBRO_IO=io_uring or threads asks for one of them. `note`: one line
// where io_uring was refused, else empty. Throws failed() where GABBRO_IO asks for io_uring and the system refuses it.
std::unique_ptr<AsyncReader> make_async_reader(int depth, std::string* note);

std::unique_ptr<AsyncReader> make_thread_reader(int depth);
// Null, with the reason, where the system refuses it.
std::unique_ptr<AsyncReader> make_uring_reader(int depth, std::string* reason);

}  // namespace gabbro
