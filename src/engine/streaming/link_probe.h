// How fast weights can arrive: direct reads of a model's file, and copies from pinned memory to a device. Measured
// once, for a quarter of a second at most each, and cached.
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
  double device = 0;  // of copies to it; of packing by one thread where it works in host memory; 0: there are none
};

// The speed of direct reads of `path`, where a pattern is given, and of copies to the device. The results are kept in
// $XDG_CACHE_HOME/gabbro/links, or ~/.cache/gabbro/links, by the disk, the pattern and the device.
LinkSpeeds probe_links(const std::string& path, Device& device, const std::optional<ReadPattern>& reads);
// The speeds of reads and of packing for a device that works in host memory. What a read brings is packed before its
// buffer is read to again, as in a stream: both share the cores. `dtype`: of the weights.
LinkSpeeds probe_packed_reads(const std::string& path, Device& device, DType dtype, const ReadPattern& reads);
// The file with the most bytes of weights, which stands for all.
std::string largest_file(const Checkpoint& checkpoint);

inline constexpr int64_t kProbeColumns = 4096;  // of the matrices that are multiplied

// Bytes of weights per second, as a file has them, that a CPU multiplies for 1 and for 8 tokens while copies go to a
// device, and of these copies meanwhile: both take from the memory's bandwidth.
struct CpuSpeeds {
  double one = 0, eight = 0;
  double copies = 0;
};
// Matrices of this format, which no cache holds, on a CPU that was opened with `threads` (0: one for each core). The
// results are kept, too.
CpuSpeeds probe_cpu(Device& cpu, DType dtype, int threads, Device& device);

// Bytes per second as the device has them that it multiplies with one token; bytes as a file has them that as many
// threads pack as it has, of a device that works in host memory; and the time of a layer besides. The multiply speed of
// a GPU without room for a matrix beyond its caches is a share of the published bandwidth.
struct DeviceSpeeds {
  double multiply = 0, pack = 0;
  double layer_seconds = 0;
};
DeviceSpeeds probe_device(Device& device, DType dtype, int threads);

// Seconds in which a layer's values go to the CPU and a block's back, besides its products.
double probe_hand_over(Device& device, Device& cpu, int threads);

// Bytes per second of direct reads of `path`, for at most `seconds`. A pattern without bursts ends with the file.
// `arrived` is called with each read's bytes before its buffer is read to again.
using Arrived = std::function<void(std::span<const std::byte>)>;
double measure_file(const std::string& path, double seconds, const ReadPattern& pattern = {},
                    const Arrived& arrived = {});
double measure_copies(Device& device, double seconds);

}  // namespace gabbro::streaming
