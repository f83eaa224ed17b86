#include "src/engine/streaming/stream_times.h"

#include <cstdlib>
#include <fstream>

#include "src/base/error.h"
#include "src/base/mapped_file.h"

namespace gabbro::streaming {

std::unique_ptr<StreamTimes> StreamTimes::from_environment() {
  const char* const path = std::getenv("GABBRO_STREAM_TIMES");
  if (path == nullptr || *path == '\0') return nullptr;
  if (!std::ofstream(path, std::ios::app)) throw bad_input("GABBRO_STREAM_TIMES: {} cannot be written", path);
  return std::unique_ptr<StreamTimes>(new StreamTimes(path));
}

void StreamTimes::save() {
  const std::lock_guard lock(mutex_);
  constexpr const char* kNames[] = {"read", "pack", "compute"};
  std::string text = "{\"events\": [";
  for (size_t i = 0; i < spans_.size(); ++i) {
    const Span& s = spans_[i];
    text += fmt::format("{}\n[\"{}\", {}, {:.6f}, {:.6f}, {}]", i > 0 ? "," : "", kNames[static_cast<int>(s.kind)],
                        s.layer, s.begin, s.end, s.bytes);
  }
  text += "]}\n";
  try {
    write_file_atomically(path_, std::as_bytes(std::span(text)));
  } catch (const Error&) {  // the stream is ending: the former file stays
  }
}

void StreamTimes::add(Kind kind, int64_t layer, Clock::time_point begin, Clock::time_point end, size_t bytes) {
  constexpr size_t kMost = 100'000;
  const auto seconds = [&](Clock::time_point t) { return std::chrono::duration<double>(t - start_).count(); };
  const std::lock_guard lock(mutex_);
  if (spans_.size() < kMost) spans_.push_back({kind, layer, seconds(begin), seconds(end), bytes});
}

}  // namespace gabbro::streaming
