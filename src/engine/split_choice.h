// The choice of --split auto: one device, layers or tensors, by the memory and by the time of a token of one text. A
// pure function of the model's sizes, the devices and their links.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gabbro {

struct SplitFacts {
  struct OneDevice {
    std::string name;
    double bandwidth = 0;  // bytes per second that reading weights reaches; 0: unknown
    bool holds_all = false;
    double share = 1;  // of the model, where it is split
  };
  std::vector<OneDevice> devices;
  int64_t layers = 0;
  uint64_t bytes_per_token = 0;  // weights that a token reads
  // Why the devices cannot hold the model so; empty: they can.
  std::string no_layers, no_tensors;
  bool may_be_one = true;  // false: the caller has given shares
  // The time of a sum over the devices, and of a handover to the next one, for one token. 0: unknown.
  double sum_seconds = 0, hop_seconds = 0;
};

enum class SplitWay { kOneDevice, kLayers, kTensors };

struct SplitChoice {
  SplitWay way = SplitWay::kLayers;
  size_t device = 0;  // of kOneDevice
  std::string why;    // one line
  // Seconds of a token, or nothing where the way is not possible or the bandwidth is unknown.
  std::optional<double> one_device, layers, tensors;
};

// The time of a layer without its reads and sums: launches, and attention's fixed costs.
inline constexpr double kLayerSeconds = 21.6e-6;  // fitted to 8B and 70B on H200

SplitChoice choose_split(const SplitFacts& facts);

}  // namespace gabbro
