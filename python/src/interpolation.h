// The arguments of interpolate and Upsample.
#pragma once

#include "gabbro/ops/resize.h"
#include "python/src/ops.h"

namespace gabbro::python {

using Factors = std::variant<double, std::vector<double>>;

inline std::vector<double> factors_of(const Factors& factors) {
  if (const auto* one = std::get_if<double>(&factors)) return {*one};
  return std::get<std::vector<double>>(factors);
}

inline constexpr std::pair<Interpolation, const char*> kInterpolations[] = {
    {Interpolation::kNearest, "nearest"},
    {Interpolation::kNearestExact, "nearest-exact"},
    {Interpolation::kBilinear, "bilinear"},
    {Interpolation::kArea, "area"}};

inline Interpolation interpolation(const std::string& mode) {
  for (const auto& [known, name] : kInterpolations)
    if (mode == name) return known;
  throw bad_input("[interpolate] mode is 'nearest', 'nearest-exact', 'bilinear' or 'area', not '{}'", mode);
}

inline InterpolateOptions interpolate_options(const std::optional<Integers>& size,
                                              const std::optional<Factors>& scale_factor, const std::string& mode,
                                              std::optional<bool> align_corners, std::optional<bool> recompute) {
  InterpolateOptions options{.recompute_scale_factor = recompute.value_or(false),
                             .align_corners = align_corners.value_or(false)};
  options.mode = interpolation(mode);
  if (size) options.size = size->values;
  if (scale_factor) options.scale_factor = factors_of(*scale_factor);
  return options;
}

}  // namespace gabbro::python
