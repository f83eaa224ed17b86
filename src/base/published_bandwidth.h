// The memory bandwidth of GPUs as their makers publish it: the one table of these figures.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace gabbro {

struct PublishedBandwidth {
  double bytes_per_second;
  std::string_view source;  // "AMD's specifications"
};

// GB/s by target ("gfx1100"), name ("NVIDIA H100 PCIe"; part of it is enough) and memory in bytes; each may be empty
// or 0. If cards share all of these, the slowest counts. Empty for a card that is not in the table, and for
// integrated GPUs whose memory is whatever the machine has.
std::optional<PublishedBandwidth> published_bandwidth(std::string_view architecture, std::string_view name,
                                                      uint64_t memory);

}  // namespace gabbro
