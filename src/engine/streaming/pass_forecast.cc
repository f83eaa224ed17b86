#include "src/engine/streaming/pass_forecast.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/backend/device.h"
#include "src/engine/streaming/weight_stream.h"
#include "src/models/llm/model_plan.h"

namespace gabbro::streaming {
namespace {

using Home = PlacedMatrix::Home;

double time_of(uint64_t bytes, double speed) { return speed > 0 ? static_cast<double>(bytes) / speed : 0; }

// A layer's part in a pass of one token.
struct LayerWork {
  std::vector<const PlacedMatrix*> moved;  // in the order in which they come
  uint64_t file_bytes = 0;                 // of these, from files
  uint64_t device_bytes = 0;               // that the device multiplies
  uint64_t host_bytes = 0;                 // that the CPU multiplies
  uint64_t by_need_bytes = 0;              // of experts that are probably missing, which are read when they are chosen
};

uint64_t used_bytes(const PlacedMatrix& m, uint64_t bytes) {
  return m.experts > 0 ? bytes / static_cast<uint64_t>(m.experts) * static_cast<uint64_t>(m.used) : bytes;
}

std::map<int64_t, LayerWork> stages_of(const Placement& placement, const HostPlan& host) {
  std::set<int64_t> on_host;
  for (const HostLayer& layer : host.layers) on_host.insert(layer.number);
  std::map<int64_t, LayerWork> stages;
  for (const PlacedMatrix& m : placement.matrices) {
    if (m.layer < 0) continue;
    LayerWork& stage = stages[m.layer];
    if (m.home == Home::kHost && on_host.contains(m.layer) && is_feed_forward(m.name)) {
      stage.host_bytes += m.device_bytes;
      continue;
    }
    stage.device_bytes += used_bytes(m, m.device_bytes);
    if (m.home == Home::kDevice) continue;
    if (m.home == Home::kByNeed) {
      const auto bytes = static_cast<double>(used_bytes(m, m.file_bytes));
      stage.by_need_bytes += static_cast<uint64_t>(bytes * missing_share(placement, m.layer));
      continue;
    }
    stage.moved.push_back(&m);
    if (m.home == Home::kFile) stage.file_bytes += m.file_bytes;
  }
  return stages;
}

// Moments of a stream that goes on from pass to pass, in seconds.
class Timeline {
 public:
  Timeline(uint64_t ring, uint64_t read_ahead, const PassSpeeds& speeds)
      : ring_(ring), read_ahead_(read_ahead), speeds_(speeds) {}

  void run(const LayerWork& stage) {
    double arrived = 0;
    for (const PlacedMatrix* m : stage.moved)
      arrived = std::max(arrived, m->home == Home::kHost ? copied(*m) : read(*m));
    const double begin = std::max(computed_, arrived);
    computed_ = begin + time_of(stage.device_bytes, speeds_.multiply) + speeds_.layer_seconds +
                time_of(stage.by_need_bytes, speeds_.experts) + time_of(stage.by_need_bytes, speeds_.pack);
    if (stage.host_bytes > 0) computed_ += time_of(stage.host_bytes, speeds_.cpu) + speeds_.hand_over_seconds;
    released_.push_back({taken_, computed_});
  }

  void run_head(uint64_t bytes) { computed_ += time_of(bytes, speeds_.multiply) + speeds_.layer_seconds; }

  double computed() const { return computed_; }

 private:
  struct Released {
    uint64_t bytes;  // of all layers up to this one
    double when;
  };

  // When all but `room` of the bytes that were taken, and `bytes` more, are free again.
  double room(uint64_t bytes, uint64_t room) const {
    if (taken_ + bytes <= room) return 0;
    const uint64_t wanted = taken_ + bytes - room;
    const auto found = std::ranges::lower_bound(released_, wanted, {}, &Released::bytes);
    return found != released_.end() ? found->when : computed_;
  }

  double copied(const PlacedMatrix& m) {
    bus_ = std::max(bus_, room(m.ring_bytes, ring_)) + time_of(m.device_bytes, speeds_.links.device);
    taken_ += m.ring_bytes;
    return bus_;
  }

  double read(const PlacedMatrix& m) {
    disk_ = std::max(disk_, room(m.ring_bytes, ring_ + read_ahead_)) + time_of(m.file_bytes, speeds_.links.file);
    bus_ = std::max(bus_, room(m.ring_bytes, ring_)) + time_of(m.file_bytes, speeds_.links.device);
    bus_ = std::max(bus_, disk_);
    taken_ += m.ring_bytes;
    return bus_;
  }

  uint64_t ring_, read_ahead_;
  const PassSpeeds& speeds_;
  uint64_t taken_ = 0;  // bytes of the ring, counted up for ever
  double disk_ = 0, bus_ = 0, computed_ = 0;
  std::vector<Released> released_;
};

// Mean bytes per second of the reads of a pass.
double mean_file_speed(const Placement& placement, const HostPlan& host, const PassSpeeds& speeds) {
  if (speeds.experts == 0) return placement.file_bytes_per_pass > 0 ? speeds.links.file : 0;
  uint64_t bytes = 0;
  double seconds = 0;
  for (const auto& [number, stage] : stages_of(placement, host)) {
    bytes += stage.file_bytes + stage.by_need_bytes;
    seconds += time_of(stage.file_bytes, speeds.links.file) + time_of(stage.by_need_bytes, speeds.experts);
  }
  return seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
}

// The format with most of the bytes that pass over a home.
DType usual_format(const Placement& placement) {
  std::map<DType, uint64_t> bytes;
  for (const PlacedMatrix& m : placement.matrices) bytes[m.dtype] += m.layer >= 0 ? m.file_bytes : 0;
  return std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
}

}  // namespace

// The embeddings are looked up, unless they are the head, too.
uint64_t head_bytes(const Placement& placement, const ModelNeeds& needs) {
  uint64_t head = 0, embeddings = 0, all = 0;
  for (const PlacedMatrix& m : placement.matrices) {
    all += m.file_bytes;
    if (m.name == "output.weight") head = m.device_bytes;
    if (m.name == llm::kEmbeddings) embeddings = m.device_bytes;
  }
  return head > 0 ? head : std::min(embeddings, std::min(all, needs.bytes_per_token));
}

double seconds_of_pass(const Placement& placement, const HostPlan& host, const PassSpeeds& speeds, uint64_t read_ahead,
                       uint64_t head_bytes) {
  const std::map<int64_t, LayerWork> stages = stages_of(placement, host);
  Timeline timeline(placement.ring_bytes, read_ahead, speeds);
  constexpr int kPasses = 4;  // the first ones begin with an empty ring
  double before = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    before = timeline.computed();
    for (const auto& [number, stage] : stages) timeline.run(stage);
    timeline.run_head(head_bytes);
  }
  return timeline.computed() - before;
}

PassForecast forecast_pass(const Placement& placement, const HostPlan& host, const std::string& path,
                           const std::shared_ptr<Device>& device, const std::shared_ptr<Device>& cpu, int threads,
                           uint64_t head_bytes) {
  PassForecast forecast;
  if (!placement.streams()) return forecast;
  PassSpeeds& speeds = forecast.speeds;
  const DType format = usual_format(placement);
  const StreamSizes sizes = default_sizes(*device, largest_layer(placement.matrices));
  const auto reads = stream_reads(placement, sizes);
  speeds.links = reads && device->host_accessible() ? probe_packed_reads(path, *device, format, *reads)
                                                    : probe_links(path, *device, reads);
  const auto experts = expert_reads(placement, sizes);
  if (experts) speeds.experts = probe_links(path, *device, experts).file;
  const DeviceSpeeds own = probe_device(*device, format, threads);
  speeds.multiply = own.multiply;
  speeds.layer_seconds = own.layer_seconds;
  if (device->host_accessible()) {
    speeds.pack = own.pack;
  }
  if (!host.layers.empty() && cpu != nullptr) {
    const CpuSpeeds measured = probe_cpu(*cpu, format, threads, *device);
    speeds.cpu = measured.one;
    if (measured.copies > 0) speeds.links.device = measured.copies;
    speeds.hand_over_seconds = probe_hand_over(*device, *cpu, threads);
  }
  forecast.file_bandwidth = mean_file_speed(placement, host, speeds);
  const uint64_t buffers = static_cast<uint64_t>(sizes.buffers) * sizes.piece_bytes;
  forecast.seconds = seconds_of_pass(placement, host, speeds, buffers, head_bytes);
  return forecast;
}

}  // namespace gabbro::streaming
