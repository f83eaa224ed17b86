// The record of the plugin's HIP calls that GABBRO_HIP_TRACE=FILE asks for. Each call writes a line of JSON when it
// begins (number, thread, name, arguments) and one when it returns (number, result, microseconds, outputs), so that a
// call that never returns is the one without a second line. tools/hip_trace compares two such files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace gabbro::gpu::hip {

class CallTrace {
 public:
  // Replaces the file; is_open() says whether that was possible.
  explicit CallTrace(const std::string& path);
  // The one of GABBRO_HIP_TRACE; null if the variable is not set.
  static CallTrace* of_process();

  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }

  struct Call {
    uint64_t number = 0;
    std::chrono::steady_clock::time_point start;
  };
  // `arguments` and `outputs` are JSON values with commas between them.
  Call begin(std::string_view name, const std::string& arguments);
  void end(const Call& call, int result, const std::string& outputs);

  // Names for pointers, as JSON strings: "stream1" for the first stream, "mem2+4096" inside the second allocation,
  // "host" for memory that no recorded call has allocated. Creating an object at a known address gives it a new name.
  std::string handle(const std::string& kind, const void* object);
  std::string created_handle(const std::string& kind, const void* object);
  std::string memory(const void* pointer);
  std::string created_memory(const std::string& kind, const void* pointer, size_t bytes);

 private:
  struct Region {
    size_t bytes;
    std::string name;
  };
  void write_line(const std::string& line);
  std::string new_name(const std::string& kind);

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::string path_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::mutex mutex_;
  uint64_t calls_ = 0;
  int threads_ = 0;
  std::map<std::string, int, std::less<>> counts_;                     // of names, by kind
  std::map<std::string, std::map<const void*, std::string>> handles_;  // by kind
  std::map<uintptr_t, Region> regions_;                                // by first address
};

// `text` as a JSON string. Bytes outside ASCII are replaced.
std::string json_text(std::string_view text);

}  // namespace gabbro::gpu::hip
