// The rate at which threads of this machine can read memory: the limit that generation is measured against.
#pragma once

namespace gabbro::cli {

// Bytes per second, the upper quartile of some passes over 24 MiB whose lines are flushed from all caches before each.
// 0 where the processor cannot flush them, or where there is too little memory.
double measure_read_bandwidth(int threads);

}  // namespace gabbro::cli
