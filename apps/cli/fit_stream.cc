#include "apps/cli/fit_stream.h"

#include <nlohmann/json.hpp>

#include "apps/cli/terminal.h"

namespace gabbro::cli {

nlohmann::ordered_json stream_document(const StreamForecast& f) {
  using Json = nlohmann::ordered_json;
  const auto or_unknown = [](double number) { return number > 0 ? Json(number) : Json(nullptr); };
  const streaming::PassSpeeds& speeds = f.pass.speeds;
  return {{"device", f.device},
          {"planned_bytes", f.placement.device_bytes()},
          {"least_bytes", f.least},
          {"resident_bytes", f.placement.resident_bytes},
          {"host_bytes", f.placement.host_bytes},
          {"cpu_layers", f.host.layers.size()},
          {"cpu_tokens", f.host.tokens},
          {"cpu_bytes", f.host.moved_bytes},
          {"ring_bytes", f.placement.ring_bytes},
          {"bytes_per_pass", f.placement.bytes_per_pass},
          {"file_bytes_per_pass", f.placement.file_bytes_per_pass},
          {"file_bandwidth", or_unknown(f.pass.file_bandwidth)},
          {"device_bandwidth", or_unknown(f.speeds.device)},
          {"multiply_bandwidth", or_unknown(speeds.multiply)},
          {"pack_bandwidth", or_unknown(f.device == "cpu" ? speeds.links.device : 0)},
          {"cpu_bandwidth", or_unknown(speeds.cpu)},
          {"bus_bandwidth_beside", or_unknown(f.host.layers.empty() ? 0 : speeds.links.device)},
          {"layer_seconds", or_unknown(speeds.layer_seconds)},
          {"hand_over_seconds", or_unknown(speeds.hand_over_seconds)},
          {"seconds_per_token", or_unknown(f.pass.seconds)}};
}

std::string stream_line(const StreamForecast& f, const std::string& memory) {
  if (!f.placement.streams()) return fmt::format("\nWith --memory {} all of it stays on {}.\n", memory, f.device);
  const double seconds = f.pass.seconds;
  const std::string cpu = f.host.tokens > 0
                              ? fmt::format(", the CPU computes {} in {} layers for up to {} tokens",
                                            human_bytes(f.host.moved_bytes), f.host.layers.size(), f.host.tokens)
                              : "";
  return fmt::format(
      "\nWith --memory {} on {}: {} of weights stay, {} are streamed for each token{}{}; {} are the least.\n", memory,
      f.device, human_bytes(f.placement.resident_bytes), human_bytes(f.placement.bytes_per_pass - f.host.moved_bytes),
      cpu, seconds > 0 ? fmt::format(", {:.3g} s", seconds) : std::string(), human_bytes(f.least));
}

}  // namespace gabbro::cli
