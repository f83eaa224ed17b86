#include "tests/emulated_hip/rules.h"

#include <algorithm>
#include <array>

namespace emulated_hip {
namespace {

constexpr size_t kPage = 4096, kLargePage = size_t{2} << 20;

// A version counts major * 10000000 + minor * 100000 + patch.
constexpr std::array<Rules, 4> kRules = {{
    {.name = "6.4",
     .number = 60443484,
     .aborts_on_fault = true,
     .unmaps_one_piece = true,
     .refuses_tail_access = false,
     .recommended_granularity = kPage,
     .limits_single_allocation = true,
     .newest_bundle_format = 2,
     .keeps_stale_capture = true},
    {.name = "7.2",
     .number = 70253211,
     .aborts_on_fault = false,
     .unmaps_one_piece = false,
     .refuses_tail_access = true,
     .recommended_granularity = kLargePage,
     .limits_single_allocation = false,
     .newest_bundle_format = 3,
     .keeps_stale_capture = false},
    {.name = "7.14",
     .number = 71460850,
     .aborts_on_fault = false,
     .unmaps_one_piece = false,
     .refuses_tail_access = false,
     .recommended_granularity = kLargePage,
     .limits_single_allocation = false,
     .newest_bundle_format = 3,
     .keeps_stale_capture = false},
    {.name = "10.0",
     .number = 100012345,
     .aborts_on_fault = false,
     .unmaps_one_piece = false,
     .refuses_tail_access = false,
     .recommended_granularity = kLargePage,
     .limits_single_allocation = false,
     .newest_bundle_format = 3,
     .keeps_stale_capture = false},
}};

}  // namespace

std::optional<Rules> find_rules(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &Rules::name);
  return found == kRules.end() ? std::nullopt : std::optional<Rules>(*found);
}

std::string_view rule_names() { return "6.4, 7.2, 7.14, 10.0"; }

}  // namespace emulated_hip
