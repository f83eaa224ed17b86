// The arguments of interpolate and Upsample.
#pragma once

#include "gabbro/ops/resize.h"
#include "python/src/ops.h"

namespace gabbro::python {

using Factors = std::variant<double, std::vector<double>>;

inline InterpolateOptions interpolate_options(const std::optional<Integers>& size,
                                              const std::optional<Factors>& scale_factor, const std::string& mode,
                                              std::optional<bool> align_corners, std::optional<bool> recompute) {
  InterpolateOptions options{.recompute_scale_factor = recompute.value_or(false),
                             .align_corners = align_corners.value_or(false)};
  if (mode == "nearest") {
    options.mode = Interpolation::kNearest;
  } else if (mode == "nearest-exact") {
    options.mode = Interpolation::kNearestExact;
  } else if (mode == "bilinear") {
    options.mode = Interpolation::kBilinear;
  } else if (mode == "area") {
    options.mode = Interpolation::kArea;
  } else {
    throw bad_input("[interpolate] mode is 'nearest', 'nearest-exact', 'bilinear' or 'area', not '{}'", mode);
  }
  if (size) options.size = size->values;
  if (!scale_factor) return options;
  if (const auto* factor = std::get_if<double>(&*scale_factor)) {
    options.scale_factor = {*factor};
  } else {
    options.scale_factor = std::get<std::vector<double>>(*scale_factor);
  }
  return options;
}

}  // namespace gabbro::python
