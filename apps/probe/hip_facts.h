// `gabbro_probe facts`: what a HIP runtime says of itself and of its devices, as lines of JSON.
#pragma once

#include "src/base/hip/search.h"

namespace gabbro::probe {

// Each line is written before the next question is asked: a crash or a hang is where the lines end. Returns the exit
// code.
int print_hip_facts(const hip_search::Settings& settings);

}  // namespace gabbro::probe
