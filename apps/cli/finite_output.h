// Numbers that a model computed, before they are written or printed.
#pragma once

#include <span>
#include <string>

#include "src/base/error.h"
#include "src/formats/quant/finite.h"

namespace gabbro::cli {

// The place of the first value of [rows, width] that is NaN or infinite: "nan at (3, 17)"; empty: there is none.
inline std::string find_damage(std::span<const float> values, int64_t width) {
  const auto found = find_non_finite(values);
  if (!found) return "";
  const int64_t shape[] = {std::ssize(values) / width, width};
  return describe(*found, shape);
}

// The model's output `what` ("logits") is not a number, at this place.
inline Error not_a_number(const std::string& model, const std::string& what, const std::string& place) {
  return Error(ErrorCode::kFailed, fmt::format("{}: the model's output is not a number: {}: {}", model, what, place),
               "its file may be damaged: gabbro inspect MODEL --check reads all of it");
}

}  // namespace gabbro::cli
