#include "src/backend/discovery/pci.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "src/backend/discovery/fields.h"

namespace gabbro::discovery {
namespace {

// PCI classes (the upper byte of three): display controllers, and processing accelerators (MI300).
constexpr uint64_t kDisplay = 0x03, kAccelerator = 0x12;
constexpr size_t kPciIdsLimit = 4 << 20;  // the list of PCI devices has 1.4 MB

std::string driver_of(const SystemRoot& root, const std::string& folder, const Fields& uevent) {
  const std::string linked = root.link_name(folder + "/driver");
  return linked.empty() ? text_field(uevent, "DRIVER") : linked;
}

std::string vendor_name(Vendor vendor) { return vendor == Vendor::kAmd ? "AMD" : "NVIDIA"; }

// "Navi 31 [Radeon RX 7900 XTX]" is known by the part in brackets.
std::string short_name(const std::string& name) {
  const size_t open = name.find('['), close = name.rfind(']');
  const bool bracketed = open != std::string::npos && close != std::string::npos && open < close;
  return bracketed ? name.substr(open + 1, close - open - 1) : name;
}

// From the list of PCI devices: "1002  Advanced ..." and below it "\t744c  Navi 31 [...]".
std::string listed_name(const SystemRoot& root, Vendor vendor, uint16_t device) {
  const std::string maker = fmt::format("{:04x}  ", static_cast<uint16_t>(vendor));
  const std::string wanted = fmt::format("\t{:04x}  ", device);
  for (const char* file : {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"}) {
    std::istringstream list(root.read(file, kPciIdsLimit).value_or(""));
    bool below_maker = false;
    for (std::string line; std::getline(list, line);) {
      if (below_maker && line.starts_with(wanted)) {
        return vendor_name(vendor) + " " + short_name(line.substr(wanted.size()));
      }
      if (!line.starts_with('\t') && !line.starts_with('#')) below_maker = line.starts_with(maker);
    }
  }
  return {};
}

std::string name_of(const SystemRoot& root, const std::string& folder, const PciGpu& gpu) {
  if (const auto product = root.read(folder + "/product_name", 256); product && !product->empty()) return *product;
  if (gpu.vendor == Vendor::kNvidia) {
    const auto text = root.read("/proc/driver/nvidia/gpus/" + gpu.address + "/information");
    if (std::string model = text ? text_field(parse_fields(*text, ':'), "Model") : ""; !model.empty()) {
      return model;
    }
  }
  if (std::string listed = listed_name(root, gpu.vendor, gpu.device); !listed.empty()) return listed;
  return fmt::format("{} GPU ({:04x}:{:04x})", vendor_name(gpu.vendor), static_cast<uint16_t>(gpu.vendor), gpu.device);
}

int lanes(const SystemRoot& root, const std::string& file) {
  const uint64_t width = root.read_number(file).value_or(0);
  return width <= 32 ? static_cast<int>(width) : 0;  // the kernel shows 255 and the like where it does not know
}

std::optional<double> power_of(const SystemRoot& root, const std::string& folder) {
  for (const std::string& monitor : root.list(folder + "/hwmon")) {
    for (const char* file : {"/power1_average", "/power1_input"}) {
      const auto microwatts = root.read_number(fmt::format("{}/hwmon/{}{}", folder, monitor, file));
      if (microwatts) return static_cast<double>(*microwatts) / 1e6;
    }
  }
  return std::nullopt;
}

std::string render_node_of(const SystemRoot& root, const std::string& folder) {
  for (const std::string& name : root.list(folder + "/drm")) {
    if (name.starts_with("renderD")) return "/dev/dri/" + name;
  }
  return {};
}

// Connectors are folders such as drm/card1/card1-DP-2.
bool has_display(const SystemRoot& root, const std::string& folder) {
  for (const std::string& card : root.list(folder + "/drm")) {
    if (!card.starts_with("card")) continue;
    for (const std::string& connector : root.list(fmt::format("{}/drm/{}", folder, card))) {
      const auto status = root.read(fmt::format("{}/drm/{}/{}/status", folder, card, connector), 64);
      if (status && *status == "connected") return true;
    }
  }
  return false;
}

MemoryPool pool_of(const SystemRoot& root, const std::string& prefix) {
  return {root.read_number(prefix + "_total").value_or(0), root.read_number(prefix + "_used").value_or(0)};
}

std::optional<PciGpu> read_gpu(const SystemRoot& root, const std::string& folder, std::string_view folder_name) {
  const uint64_t vendor = root.read_number(folder + "/vendor").value_or(0);
  const auto device = root.read_number(folder + "/device");
  const bool known = vendor == static_cast<uint64_t>(Vendor::kAmd) || vendor == static_cast<uint64_t>(Vendor::kNvidia);
  if (!device || !known) return std::nullopt;
  const uint64_t kind = root.read_number(folder + "/class").value_or(kDisplay << 16) >> 16;
  if (kind != kDisplay && kind != kAccelerator) return std::nullopt;

  const Fields uevent = parse_fields(root.read(folder + "/uevent").value_or(""), '=');
  PciGpu gpu;
  gpu.address = normalized_pci_address(text_field(uevent, "PCI_SLOT_NAME"));
  if (gpu.address.empty()) gpu.address = normalized_pci_address(folder_name);
  if (gpu.address.empty()) return std::nullopt;
  gpu.vendor = static_cast<Vendor>(vendor);
  gpu.device = static_cast<uint16_t>(*device);
  gpu.driver = driver_of(root, folder, uevent);
  gpu.name = name_of(root, folder, gpu);
  gpu.render_node = render_node_of(root, folder);
  gpu.vram = pool_of(root, folder + "/mem_info_vram");
  gpu.gtt = pool_of(root, folder + "/mem_info_gtt");
  gpu.display = has_display(root, folder);
  gpu.link = {.speed = root.read(folder + "/current_link_speed", 64).value_or(""),
              .max_speed = root.read(folder + "/max_link_speed", 64).value_or(""),
              .width = lanes(root, folder + "/current_link_width"),
              .max_width = lanes(root, folder + "/max_link_width")};
  gpu.iommu = root.read(folder + "/iommu_group/type", 64).value_or("");
  if (const auto busy = root.read_number(folder + "/gpu_busy_percent"); busy && *busy <= 100) {
    gpu.busy_percent = static_cast<int>(*busy);
  }
  gpu.watts = power_of(root, folder);
  return gpu;
}

bool is_hexadecimal(std::string_view text, size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string normalized_pci_address(std::string_view text) {
  std::string address(text);
  for (char& c : address) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (std::ranges::count(address, ':') == 1) address.insert(0, "0000:");
  const std::string_view whole = address;
  if (whole.size() != 12 || whole[4] != ':' || whole[7] != ':' || whole[10] != '.') return {};
  const bool valid = is_hexadecimal(whole.substr(0, 4), 4) && is_hexadecimal(whole.substr(5, 2), 2) &&
                     is_hexadecimal(whole.substr(8, 2), 2) && whole[11] >= '0' && whole[11] <= '7';
  return valid ? address : std::string();
}

std::vector<PciGpu> read_pci_gpus(const SystemRoot& root) {
  std::vector<PciGpu> gpus;
  const auto add = [&](const std::string& folder, std::string_view name) {
    std::optional<PciGpu> gpu = read_gpu(root, folder, name);
    if (gpu && std::ranges::find(gpus, gpu->address, &PciGpu::address) == gpus.end()) gpus.push_back(std::move(*gpu));
  };
  for (const std::string& name : root.list("/sys/bus/pci/devices")) add("/sys/bus/pci/devices/" + name, name);
  for (const std::string& name : root.list("/sys/class/drm")) {
    if (name.starts_with("card")) add("/sys/class/drm/" + name + "/device", "");
  }
  std::ranges::sort(gpus, {}, &PciGpu::address);
  return gpus;
}

}  // namespace gabbro::discovery
