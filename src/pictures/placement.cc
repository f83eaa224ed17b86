#include "src/pictures/placement.h"

#include <algorithm>
#include <cmath>

#include "src/backend/device.h"
#include "src/base/error.h"

namespace gabbro::pictures {

std::string Placement::describe() const {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (text_on_cpu) add("the text encoders compute on the CPU");
  if (bands == DecodeBands::kOn) add("pictures are decoded in bands");
  if (resident_bytes)
    add(fmt::format("each step copies {:.2f} GiB of the U-Net's weights to the device", std::ldexp(moved_bytes, -30)));
  return text;
}

Placement place_pipeline(const PipelineParts& parts, const std::shared_ptr<Device>& device,
                         const MemoryQuestion& question, uint64_t budget) {
  if (device->host_accessible()) {
    throw bad_input("--memory: {} works in the host's memory; pictures take the option on GPUs", device->facts().id);
  }
  MemoryQuestion asked = question;
  asked.separate = true;
  const auto placed = [&](DecodeBands bands) {
    asked.bands = bands;
    Placement placement{.text_on_cpu = !asked.text, .bands = bands, .resident_bytes = asked.resident_bytes};
    placement.forecast = forecast_memory(parts, device, asked);
    for (const PartMemory& part : placement.forecast.parts) placement.moved_bytes += part.moved_bytes;
    return placement;
  };
  const bool may_band = question.bands == DecodeBands::kAuto;
  uint64_t least = UINT64_MAX;
  const auto first_that_fits = [&]() -> std::optional<Placement> {
    for (const DecodeBands bands : {question.bands, DecodeBands::kOn}) {
      Placement placement = placed(bands);
      least = std::min(least, placement.forecast.total_bytes());
      if (placement.forecast.total_bytes() <= budget) return placement;
      if (!may_band) break;
    }
    return std::nullopt;
  };
  Placement whole = placed(question.bands);
  if (whole.forecast.total_bytes() <= budget) return whole;
  asked.text = false;
  if (std::optional<Placement> placement = first_that_fits()) return *std::move(placement);
  asked.resident_bytes = 0;
  const std::optional<Placement> moving = first_that_fits();
  if (!moving) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("--memory: {:.2f} GiB do not suffice for {} x {} pixels", std::ldexp(budget, -30),
                            asked.size.width, asked.size.height),
                fmt::format("the least is {:.2f} GiB", std::ldexp(least, -30)));
  }
  asked.resident_bytes = budget - moving->forecast.total_bytes();
  Placement placement = placed(moving->bands);
  // Pools round the sizes of the blocks that stay up. With no such block the total is that of `moving`.
  for (uint64_t total = 0; (total = placement.forecast.total_bytes()) > budget && *asked.resident_bytes > 0;) {
    *asked.resident_bytes -= std::min(*asked.resident_bytes, total - budget);
    placement = placed(moving->bands);
  }
  return placement;
}

}  // namespace gabbro::pictures
