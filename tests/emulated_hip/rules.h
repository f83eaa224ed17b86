// Differences between releases of the runtime, as its sources and reported bugs show them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace emulated_hip {

struct Rules {
  std::string_view name;  // "7.2"
  int number;             // of hipRuntimeGetVersion
  // A GPU fault prints a line and calls abort(); later releases return the error from every later call.
  bool aborts_on_fault;
  // hipMemUnmap of several mapped pieces keeps their memory and lets hipMemAddressFree fail (ROCR-Runtime#285).
  bool unmaps_one_piece;
  // With several reservations, hipMemSetAccess refuses a piece that does not start at its reservation's first byte
  // (rocm-systems PR#6977).
  bool refuses_tail_access;
  size_t recommended_granularity;
  // One allocation above 85 % of the memory is refused (GPU_SINGLE_ALLOC_PERCENT).
  bool limits_single_allocation;
  // Newest format of compressed code bundles.
  int newest_bundle_format;
  // A stream that ended an invalidated capture begins the next one invalidated (legacy-rocm-build#4614).
  bool keeps_stale_capture;
};

// The release of this name; empty if unknown.
std::optional<Rules> find_rules(std::string_view name);
// "6.4, 7.2, 7.14, 10.0".
std::string_view rule_names();

}  // namespace emulated_hip
