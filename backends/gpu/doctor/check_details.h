// Details of checks, which a CheckResult has no room for: with GABBRO_DOCTOR_DETAILS=FILE, lines of JSON that are
// appended to the file. The doctor's report asks for them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace gabbro::gpu {

// The file; null if no details are wanted.
const char* details_file();

// One run of a kernel: where its result differs from the expected one by more than `tolerance` times the root mean
// square, at most 64 elements are listed. `how`: "direct", or "graph" for a replayed list.
struct KernelDetails {
  std::string_view name, how;
  int run;
  std::span<const float> found;
  std::span<const double> expected;
  double tolerance;
};
// Throws ApiError if the file cannot be written.
void append_details(const KernelDetails& details);

// Rows of `columns` values that show how a kernel reads its tiles.
void append_table(std::string_view name, std::span<const float> values, size_t columns);

}  // namespace gabbro::gpu
