// The arrival rate of weights: direct reads of a model's file, and copies from pinned memory to a device. Each is
// measured once, for at most a quarter of a second, and cached.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "src/backend/device.h"
#include "src/engine/streaming/read_pattern.h"
#include "src/formats/checkpoint.h"

namespace gabbro::streaming {

struct LinkSpeeds {
  double file = 0;    // bytes per second; 0: not measured
  double device = 0;  // of copies to it; of packing by one thread if it uses host memory; 0: no copies
};

// Measures direct reads of `path`, if a pattern is given, and copies to the device. The results are cached in
// $XDG_CACHE_HOME/gabbro/links, or ~/.cache/gabbro/links, by the disk, the pattern and the device.
LinkSpeeds probe_links(const std::string& path, Device& device, const std::optional<ReadPattern>& reads);
// Measures reads and packing for a device that uses host memory. Each read is packed before its buffer is read to
// again, as in a stream: both share the cores. `dtype`: of the weights.
LinkSpeeds probe_packed_reads(const std::string& path, Device& device, DType dtype, const ReadPattern& reads);
// The file with the most bytes of weights, which represents all files.
std::string largest_file(const Checkpoint& checkpoint);

inline constexpr int64_t kProbeColumns = 4096;  // of the matrices that are multiplied

// Bytes of weights per second, in the file's layout, that a CPU multiplies with 1 and with 8 tokens during copies to a
// device; and the bytes per second of these copies. Both use the bandwidth of the memory.
struct CpuSpeeds {
  double one = 0, eight = 0;
  double copies = 0;
};
// Measures matrices of this format that exceed the CPU's caches, on a CPU that was opened with `threads` (0: one for
// each core). The results are cached, too.
CpuSpeeds probe_cpu(Device& cpu, DType dtype, int threads, Device& device);

// `multiply`: bytes per second, in the device's layout, that it multiplies with one token. `pack`: bytes per second, in
// the file's layout, that all threads of a device in host memory pack. `layer_seconds`: the other time of a layer. The
// multiply speed of a GPU without room for a matrix beyond its caches is a fraction of the published bandwidth.
struct DeviceSpeeds {
  double multiply = 0, pack = 0;
  double layer_seconds = 0;
};
DeviceSpeeds probe_device(Device& device, DType dtype, int threads);

// Seconds in which a layer's values are copied to the CPU and a block's back, besides its GEMMs.
double probe_hand_over(Device& device, Device& cpu, int threads);

// Bytes per second of direct reads of `path`, for at most `seconds`. A pattern without bursts ends with the file.
// `arrived` is called with each read's bytes before its buffer is read to again.
using Arrived = std::function<void(std::span<const std::byte>)>;
double measure_file(const std::string& path, double seconds, const ReadPattern& pattern = {},
                    const Arrived& arrived = {});
double measure_copies(Device& device, double seconds);

}  // namespace gabbro::streaming
