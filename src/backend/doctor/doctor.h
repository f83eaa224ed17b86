// `gabbro doctor`: everything that is known to go wrong with GPUs, checked, each finding with its remedy.
#pragma once

#include <span>
#include <vector>

#include "src/backend/doctor/check.h"

namespace gabbro::doctor {

struct Diagnosis {
  std::string id;
  Finding finding;
};

// Every check, in the order in which they run and are shown.
std::span<const Check> check_table();

// Never throws for what it finds. Asks the runtimes (up to some seconds where one hangs); with `self_test` also the
// backends' checks on the hardware, which take longer.
std::vector<Diagnosis> examine(bool self_test);

const char* status_name(CheckStatus status);  // "ok", "warning", "error", "skipped"

}  // namespace gabbro::doctor
