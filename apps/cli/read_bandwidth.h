// The rate at which threads of this machine can read memory: the limit that generation is measured against.
#pragma once

namespace gabbro::cli {

// Bytes per second, the best of a few passes over a buffer that no cache holds; about half a second. 0 where there is
// too little memory to tell.
double measure_read_bandwidth(int threads);

}  // namespace gabbro::cli
