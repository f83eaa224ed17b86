// Writes a float32 matrix as a NumPy file (format 1.0), a few rows at a time, so that it need not fit into memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gabbro::cli {

class NpyWriter {
 public:
  // Throws bad_input where `path` cannot be written. The data goes to a file beside it until commit().
  NpyWriter(const std::string& path, const std::vector<int64_t>& shape);
  ~NpyWriter();  // removes what was not committed
  NpyWriter(const NpyWriter&) = delete;
  NpyWriter& operator=(const NpyWriter&) = delete;

  void append(std::span<const float> values);  // throws failed() on a full disk
  void commit();

 private:
  void write_all(const void* data, size_t bytes);
  void discard();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

}  // namespace gabbro::cli
