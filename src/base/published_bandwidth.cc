#include "src/base/published_bandwidth.h"

#include <algorithm>
#include <iterator>

namespace gabbro {
namespace {

struct Row {
  std::string_view architecture;  // empty: any
  std::string_view name;          // is part of the device's name; empty: any
  int gibibytes;                  // 0: any
  double gigabytes_per_second;
};

// Data sheets and product pages of AMD and NVIDIA; of a card with two dies that are two devices, the figure of one. The
// first row that fits counts, so what is special comes first.
constexpr Row kAmd[] = {
    {"gfx906", "", 0, 1024},         // Instinct MI50, MI60; Radeon VII
    {"gfx908", "", 0, 1228.8},       // MI100
    {"gfx90a", "", 0, 1638.4},       // MI210; one die of MI250, MI250X
    {"gfx942", "MI325X", 0, 6000},   //
    {"gfx942", "", 256, 6000},       // MI325X
    {"gfx942", "", 0, 5300},         // MI300X, MI300A
    {"gfx950", "", 0, 8000},         // MI350X, MI355X
    {"gfx1010", "", 0, 448},         // Radeon RX 5700, 5700 XT
    {"gfx1012", "", 0, 224},         // RX 5500 XT
    {"gfx1030", "6950 XT", 0, 576},  //
    {"gfx1030", "", 0, 512},         // RX 6800, 6800 XT, 6900 XT; Pro W6800
    {"gfx1031", "6750 XT", 0, 432},  //
    {"gfx1031", "", 10, 320},        // RX 6700
    {"gfx1031", "", 0, 384},         // RX 6700 XT
    {"gfx1032", "6650 XT", 0, 280},  //
    {"gfx1032", "", 0, 224},         // RX 6600
    {"gfx1100", "", 24, 960},        // RX 7900 XTX
    {"gfx1100", "", 20, 800},        // RX 7900 XT
    {"gfx1100", "", 48, 864},        // Pro W7900
    {"gfx1100", "", 0, 576},         // RX 7900 GRE, Pro W7800
    {"gfx1101", "W7700", 0, 576},    //
    {"gfx1101", "", 16, 624},        // RX 7800 XT
    {"gfx1101", "", 0, 432},         // RX 7700 XT
    {"gfx1102", "", 0, 288},         // RX 7600, 7600 XT
    {"gfx1151", "", 0, 256},         // Ryzen AI Max: LPDDR5X-8000, 256 bits
    {"gfx1200", "", 0, 320},         // RX 9060 XT
    {"gfx1201", "", 12, 432},        // RX 9070 GRE
    {"gfx1201", "", 0, 640},         // RX 9070, 9070 XT; AI Pro R9700
};
constexpr Row kNvidia[] = {
    {"", "B200", 0, 8000},
    {"", "H200", 0, 4800},
    {"", "H100 NVL", 0, 3938},
    {"", "H100 PCIe", 0, 2039},
    {"", "H100", 0, 3352},
    {"", "A100", 40, 1555},
    {"", "A100-PCIE-80GB", 0, 1935},
    {"", "A100 80GB PCIe", 0, 1935},
    {"", "A100", 0, 2039},
    {"", "V100", 0, 897},
    {"", "L40S", 0, 864},
    {"", "L40", 0, 864},
    {"", "A10G", 0, 600},
    {"", "A10", 0, 600},
    {"", "L4", 0, 300},
    {"", "T4", 0, 320},
    {"", "RTX PRO 6000", 0, 1792},
    {"", "RTX 6000 Ada", 0, 960},
    {"", "RTX A6000", 0, 768},
    {"", "RTX 5090", 0, 1792},
    {"", "RTX 5080", 0, 960},
    {"", "RTX 5070 Ti", 0, 896},
    {"", "RTX 5070", 0, 672},
    {"", "RTX 4090", 0, 1008},
    {"", "RTX 4080 SUPER", 0, 736},
    {"", "RTX 4080", 0, 717},
    {"", "RTX 4070", 0, 504},
    {"", "RTX 3090 Ti", 0, 1008},
    {"", "RTX 3090", 0, 936},
    {"", "RTX 3080 Ti", 0, 912},
    {"", "RTX 3080", 0, 760},
    {"", "RTX 3060", 0, 360},
};

// Within a tenth: runtimes take some of a card's memory away.
bool has_memory(int gibibytes, uint64_t memory) {
  const double wanted = gibibytes * static_cast<double>(1 << 30);
  return gibibytes == 0 || (static_cast<double>(memory) > 0.9 * wanted && static_cast<double>(memory) < 1.1 * wanted);
}

template <size_t N>
std::optional<PublishedBandwidth> find(const Row (&rows)[N], std::string_view source, std::string_view architecture,
                                       std::string_view name, uint64_t memory) {
  const auto row = std::ranges::find_if(rows, [&](const Row& r) {
    return (r.architecture.empty() || r.architecture == architecture) && name.find(r.name) != std::string_view::npos &&
           has_memory(r.gibibytes, memory);
  });
  if (row == std::end(rows)) return {};
  return PublishedBandwidth{row->gigabytes_per_second * 1e9, source};
}

}  // namespace

std::optional<PublishedBandwidth> published_bandwidth(std::string_view architecture, std::string_view name,
                                                      uint64_t memory) {
  if (architecture.starts_with("gfx")) return find(kAmd, "AMD's specifications", architecture, name, memory);
  return find(kNvidia, "NVIDIA's specifications", architecture, name, memory);
}

}  // namespace gabbro
