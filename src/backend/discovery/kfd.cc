#include "src/backend/discovery/kfd.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

constexpr std::string_view kNodes = "/sys/class/kfd/kfd/topology/nodes";

// Values of the kernel's include/uapi/linux/kfd_sysfs.h and kfd_crat.h.
constexpr uint64_t kHeapPublic = 1, kHeapPrivate = 2;
constexpr uint64_t kNoAtomics32 = 1 << 2, kNoAtomics64 = 1 << 3;

int bounded(uint64_t value) { return static_cast<int>(std::min<uint64_t>(value, 1 << 20)); }

std::string pci_address_of(const Fields& properties) {
  const uint64_t location = number_field(properties, "location_id");
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", number_field(properties, "domain") & 0xffffffff,
                     (location >> 8) & 0xff, (location >> 3) & 0x1f, location & 7);
}

// Calls `visit` with the properties of each of the numbered folders of `folder`.
template <class Visit>
void for_each_properties(const SystemRoot& root, const std::string& folder, Visit visit) {
  for (const std::string& name : root.list(folder)) {
    if (const auto text = root.read(fmt::format("{}/{}/properties", folder, name))) visit(parse_fields(*text, ' '));
  }
}

void read_memory(const SystemRoot& root, const std::string& folder, KfdNode& node) {
  for_each_properties(root, folder + "/mem_banks", [&](const Fields& bank) {
    const uint64_t heap = number_field(bank, "heap_type");
    if (heap != kHeapPublic && heap != kHeapPrivate) return;
    node.local_bytes += number_field(bank, "size_in_bytes");
    node.large_bar |= heap == kHeapPublic;
  });
}

void read_links(const SystemRoot& root, const std::string& folder, KfdNode& node) {
  for_each_properties(root, folder + "/io_links", [&](const Fields& link) {
    if ((number_field(link, "flags") & (kNoAtomics32 | kNoAtomics64)) != 0) node.atomics = false;
  });
}

KfdNode read_gpu(const SystemRoot& root, int number, const std::string& folder, const Fields& properties) {
  KfdNode node;
  node.number = number;
  node.pci_address = pci_address_of(properties);
  node.partition = bounded((number_field(properties, "location_id") >> 28) & 0xf);
  node.architecture = gfx_name(number_field(properties, "gfx_target_version"));
  if (const uint64_t id = number_field(properties, "unique_id")) node.uuid = fmt::format("GPU-{:016x}", id);
  const int per_unit = std::max(1, bounded(number_field(properties, "simd_per_cu")));
  node.compute_units = bounded(number_field(properties, "simd_count")) / per_unit;
  node.wave_size = bounded(number_field(properties, "wave_front_size"));
  if (const uint64_t minor = number_field(properties, "drm_render_minor")) node.render_minor = bounded(minor);
  read_memory(root, folder, node);
  read_links(root, folder, node);
  return node;
}

}  // namespace

std::string gfx_name(uint64_t gfx_target_version) {
  const uint64_t major = gfx_target_version / 10000, minor = gfx_target_version / 100 % 100,
                 stepping = gfx_target_version % 100;
  if (major == 0 || major > 99 || minor > 15 || stepping > 15) return {};
  return fmt::format("gfx{}{:x}{:x}", major, minor, stepping);
}

KfdTopology read_kfd_topology(const SystemRoot& root) {
  KfdTopology topology;
  topology.present = root.exists(kNodes);
  for (const std::string& name : root.list(kNodes)) {
    const auto number = parse_number(name);
    if (!number) continue;
    const std::string folder = fmt::format("{}/{}", kNodes, name);
    const auto text = root.read(folder + "/properties");
    if (!text) {
      topology.unreadable.push_back(bounded(*number));
      continue;
    }
    const Fields properties = parse_fields(*text, ' ');
    if (number_field(properties, "simd_count") == 0) continue;  // a CPU
    topology.gpus.push_back(read_gpu(root, bounded(*number), folder, properties));
  }
  std::ranges::sort(topology.gpus, {}, &KfdNode::number);
  return topology;
}

}  // namespace gabbro::discovery
