#include "src/engine/streaming/host_blocks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "src/backend/registry.h"

namespace gabbro::streaming {
namespace {

using Home = PlacedMatrix::Home;

double seconds(uint64_t bytes, double speed) { return speed > 0 ? static_cast<double>(bytes) / speed : 0; }

uint64_t sum_of(const std::vector<HostLayer>& layers, uint64_t HostLayer::*bytes) {
  uint64_t sum = 0;
  for (const HostLayer& layer : layers) sum += layer.*bytes;
  return sum;
}

}  // namespace

bool is_feed_forward(const std::string& name) {
  for (const char* part : {".ffn_gate.weight", ".ffn_up.weight", ".ffn_down.weight"}) {
    if (name.ends_with(part)) return true;
  }
  return false;
}

std::vector<HostLayer> host_layers(const Placement& placement, const Device& cpu) {
  std::map<int64_t, HostLayer> layers;
  std::map<int64_t, bool> others;
  for (const PlacedMatrix& m : placement.matrices) {
    if (m.name.find(".ffn_") == m.name.npos) continue;
    if (m.home != Home::kHost || !is_feed_forward(m.name)) {
      others[m.layer] = true;
      continue;
    }
    HostLayer& layer = layers[m.layer];
    layer.number = m.layer;
    layer.moved_bytes += m.device_bytes;
    for (const llm::ModelMatrix& matrix : m.made) layer.cpu_bytes += bytes_on(cpu, matrix);
  }
  std::vector<HostLayer> found;
  for (const auto& [number, layer] : layers) {
    if (!others[number]) found.push_back(layer);
  }
  return found;
}

HostPlan plan_host_blocks(const Placement& placement, const std::vector<HostLayer>& layers, uint64_t memory,
                          const LinkSpeeds& links, const CpuSpeeds& cpu) {
  if (layers.empty() || links.device <= 0 || cpu.one <= 0 || cpu.eight <= 0) return {};
  constexpr double kGain = 0.95;  // of the time without host blocks; a smaller gain is not worth the memory
  const double disk = seconds(placement.file_bytes_per_pass, links.file);
  const double without = std::max(disk, seconds(placement.bytes_per_pass, links.device));
  HostPlan best;
  double shortest = kGain * without;
  for (size_t count = 1; count <= layers.size(); ++count) {
    HostPlan plan;
    for (size_t i = 0; i < count; ++i) plan.layers.push_back(layers[i * layers.size() / count]);
    plan.moved_bytes = sum_of(plan.layers, &HostLayer::moved_bytes);
    plan.cpu_bytes = sum_of(plan.layers, &HostLayer::cpu_bytes);
    if (plan.cpu_bytes > memory) break;
    plan.cpu_seconds = seconds(plan.moved_bytes, cpu.one);
    const double time =
        std::max({disk, seconds(placement.bytes_per_pass - plan.moved_bytes, links.device), plan.cpu_seconds});
    if (time >= shortest) continue;
    shortest = time;
    best = std::move(plan);
  }
  if (best.layers.empty()) return {};
  // The time per byte grows linearly with the tokens, through the measured points at 1 and 8 tokens.
  constexpr double kMost = 64;
  const double slope = std::max(0.0, (1 / cpu.eight - 1 / cpu.one) / 7);
  const double more = without / static_cast<double>(best.moved_bytes) - 1 / cpu.one;  // per byte
  best.tokens = static_cast<int64_t>(slope * kMost > more ? 1 + std::floor(more / slope) : kMost);
  return best;
}

HostPlan measured_host_plan(const Placement& placement, const std::string& path, Device& device, uint64_t host_memory,
                            int threads, std::shared_ptr<Device>& cpu) {
  if (placement.host_bytes == 0 || device.host_accessible()) return {};
  cpu = open_device("cpu", {.threads = threads});
  const std::vector<HostLayer> layers = host_layers(placement, *cpu);
  if (layers.empty()) return {};
  uint64_t used = 0;
  DType dtype = DType::f32;
  for (const PlacedMatrix& m : placement.matrices) {
    if (m.home != Home::kHost) continue;
    used += m.host_bytes;
    if (m.layer == layers.front().number) dtype = m.dtype;
  }
  const uint64_t left = host_memory > used ? host_memory - used : 0;
  const uint64_t smallest = std::ranges::min(layers, {}, &HostLayer::cpu_bytes).cpu_bytes;
  if (left < smallest) return {};
  const StreamSizes sizes = default_sizes(device, largest_layer(placement.matrices));
  LinkSpeeds links = probe_links(path, device, stream_reads(placement, sizes));
  const CpuSpeeds speeds = probe_cpu(*cpu, dtype, threads, device);
  links.device = std::min(links.device, speeds.copies);
  return plan_host_blocks(placement, layers, left, links, speeds);
}

}  // namespace gabbro::streaming
