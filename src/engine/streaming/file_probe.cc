// The speed of direct reads of a file, in the pattern of a stream.
#include <chrono>
#include <vector>

#include "src/base/async_reader.h"
#include "src/base/large_memory.h"
#include "src/base/mapped_file.h"
#include "src/base/round_up.h"
#include "src/base/seconds_since.h"
#include "src/engine/streaming/link_probe.h"
#include "src/engine/streaming/pieces.h"

namespace gabbro::streaming {

double measure_file(const std::string& path, double seconds, const ReadPattern& pattern, const Arrived& arrived) {
  Files files;
  const auto mapped = std::make_shared<MappedFile>(path);
  const int file = files.add(mapped);
  const size_t size = mapped->bytes().size() / kReadAlignment * kReadAlignment;
  const size_t read_bytes = round_up(pattern.bytes, kReadAlignment);
  const auto buffers = static_cast<uint64_t>(pattern.in_flight);
  const std::shared_ptr<void> memory = allocate_large(buffers * read_bytes);
  std::string note;
  const auto reader = make_async_reader(pattern.in_flight, &note);
  uint64_t offset = 0, bytes = 0;
  int under_way = 0, of_burst = 0;  // reads
  const auto submit = [&](uint64_t buffer) {
    const size_t length = std::min<uint64_t>(read_bytes, size - offset);
    reader->submit({.file = files.descriptor(file),
                    .offset = offset,
                    .bytes = length,
                    .target = static_cast<std::byte*>(memory.get()) + buffer * read_bytes,
                    .tag = buffer});
    offset += length;
    ++under_way;
    ++of_burst;
  };
  const auto may_submit = [&] { return offset < size && (pattern.burst == 0 || of_burst < pattern.burst); };
  const auto submit_first = [&] {
    of_burst = 0;
    for (uint64_t buffer = 0; buffer < buffers && may_submit(); ++buffer) submit(buffer);
  };
  const auto start = std::chrono::steady_clock::now();
  submit_first();
  std::vector<FinishedRead> finished;
  while (under_way > 0) {
    finished.clear();
    reader->wait(finished, std::chrono::milliseconds(100));
    for (const FinishedRead& read : finished) {
      --under_way;
      if (read.result <= 0) {
        mapped->require_unchanged();
        return 0;  // the stream will say why
      }
      bytes += static_cast<uint64_t>(read.result);
      if (arrived) {
        const std::byte* const data = static_cast<std::byte*>(memory.get()) + read.tag * read_bytes;
        arrived({data, static_cast<size_t>(read.result)});
      }
      if (may_submit() && (pattern.burst > 0 || seconds_since(start) < seconds)) submit(read.tag);
    }
    if (under_way > 0 || pattern.burst == 0 || seconds_since(start) >= seconds) continue;
    // The next burst is elsewhere in the file, as the experts of the next layer are.
    constexpr double kGoldenRatio = 0.6180339887;
    const auto jump = static_cast<uint64_t>(kGoldenRatio * static_cast<double>(size));
    offset = (offset + jump) % size / kReadAlignment * kReadAlignment;
    submit_first();
  }
  return bytes > 0 ? static_cast<double>(bytes) / seconds_since(start) : 0;
}

}  // namespace gabbro::streaming
