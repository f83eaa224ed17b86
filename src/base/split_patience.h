// How long work over several devices or processes waits for one of them.
#pragma once

#include <chrono>

namespace gabbro {

// GABBRO_SPLIT_PATIENCE, in seconds above 0; else `usual`.
std::chrono::milliseconds split_patience(std::chrono::milliseconds usual);

}  // namespace gabbro
