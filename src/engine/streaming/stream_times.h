// Times of reads, packing and computing of streamed layers, for a picture of what hides behind what
// (bench/streaming_picture.py).
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gabbro::streaming {

class StreamTimes {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Kind { kRead, kPack, kCompute };

  // Null without GABBRO_STREAM_TIMES=FILE. Throws bad_input where that file cannot be written.
  static std::unique_ptr<StreamTimes> from_environment();
  // Writes the file: {"events": [["read", layer, first second, last second, bytes], ...]}.
  void save();

  // May be called by any thread. Keeps the first 100,000.
  void add(Kind kind, int64_t layer, Clock::time_point begin, Clock::time_point end, size_t bytes);

 private:
  explicit StreamTimes(std::string path) : path_(std::move(path)) {}

  struct Span {
    Kind kind;
    int64_t layer;
    double begin, end;  // seconds
    size_t bytes;
  };
  std::string path_;
  Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::vector<Span> spans_;
};

}  // namespace gabbro::streaming
