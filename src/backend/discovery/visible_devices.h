// Devices that HIP_VISIBLE_DEVICES and its like leave visible, by the rules of the runtimes that read them:
// - ROCR_VISIBLE_DEVICES filters first and renumbers; set but empty it hides everything.
// - HIP_VISIBLE_DEVICES picks from what is left, by the new numbers; where it is not set, CUDA_VISIBLE_DEVICES does.
// - CUDA's runtime reads CUDA_VISIBLE_DEVICES alone.
// - An entry that names no device ends the list: what stands behind it is ignored. -1 is the common way to hide all.
// - GPU_DEVICE_ORDINAL is read by AMD's OpenCL and by old HIP runtimes alone.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/backend/discovery/card.h"
#include "src/backend/discovery/environment.h"

namespace gabbro::discovery {

struct Visibility {
  std::vector<const Card*> amd;     // in the runtime's numbering: rocm:0, rocm:1, ...
  std::vector<const Card*> nvidia;  // cuda:0, ...
  // Contradictions and entries that name nothing, each in one line with the variable's name.
  std::vector<std::string> problems;

  bool shows(const Card& card) const;
};

// `cards` must outlive the result.
Visibility visible_cards(const std::vector<Card>& cards, const Environment& environment);

// Variables of a child process, before it opens a runtime, for which there are these AMD cards only, as rocm:0, rocm:1
// and so on: names with their values, or nothing where the variable must not be set. A second card that a runtime sees
// costs power, and an integrated GPU next to a card has crashed whole processes. `chosen` is of `cards`, and offered by
// the compute driver.
std::vector<std::pair<std::string, std::optional<std::string>>> variables_that_show(
    const std::vector<Card>& cards, const std::vector<const Card*>& chosen);

// "gfx1030" of HSA_OVERRIDE_GFX_VERSION=10.3.0; empty where it is not set or no version.
std::string overridden_target(const Environment& environment);

}  // namespace gabbro::discovery
