// For tests of plans: names of launches on the null device, which says the text attributes of each.
#pragma once

#include <string>
#include <string_view>

#include "src/plan/plan.h"

namespace gabbro {

// The op, and of a fused elementwise launch its steps: "elementwise exp add".
inline std::string launch_name(const PlanStep& step) {
  std::string name = step.op->name;
  std::string_view rest = step.kernel->bound.implementation;
  const size_t steps = rest.find("steps: ");
  if (steps == std::string_view::npos) return name;
  rest.remove_prefix(steps + 7);
  rest = rest.substr(0, rest.find(", results: "));
  while (!rest.empty()) {
    name.append(" ").append(rest.substr(0, rest.find(' ')));
    const size_t end = rest.find("; ");
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 2);
  }
  return name;
}

}  // namespace gabbro
