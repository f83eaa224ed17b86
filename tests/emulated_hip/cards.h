// The cards that a device can be: facts that the runtime reports.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <hip/hip_runtime_api.h>

namespace emulated_hip {

struct Card {
  std::string_view target;        // "gfx1100"
  std::string_view architecture;  // with features: "gfx90a:sramecc+:xnack-"
  std::string_view name;
  int wave;
  int units;          // compute units, or work group processors (gfx10 and newer)
  size_t memory_mib;  // without what the firmware keeps
  int clock_mhz;
  int memory_clock_mhz;  // as hipDeviceProp_t has it: an eighth of the data rate with GDDR6, half with HBM
  int bus_bits;
  size_t cache_kib;  // L2
  size_t block_memory_kib;
  bool integrated;
};

const Card* find_card(std::string_view target);  // null if unknown
std::string card_names();                        // "gfx906, gfx90a, ..."

// `index` gives the PCI address; `memory` is the device's total in bytes.
hipDeviceProp_t properties_of(const Card& card, int index, size_t memory);

// The attribute's value; empty if the runtime refuses it with hipErrorInvalidValue.
std::optional<int> attribute_of(const Card& card, const hipDeviceProp_t& properties, hipDeviceAttribute_t attribute,
                                bool ranges);

}  // namespace emulated_hip
