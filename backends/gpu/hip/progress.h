// Reports of work that takes long, through the plugin's entry point gabbro_set_progress (src/base/progress_entry.h).
#pragma once

#include <string>

namespace gabbro::gpu::hip {

// One line for people; nothing if no one asked for it.
void report_progress(const std::string& line);

}  // namespace gabbro::gpu::hip
