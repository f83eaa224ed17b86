// The files of a machine that discovery and the doctor read, as GABBRO_SYSFS_ROOT takes them in a folder. They have
// only what concerns GPUs; tools/record_sysfs records the same.
#pragma once

#include <vector>

#include "src/backend/discovery/machine.h"
#include "src/backend/survey.h"
#include "src/report/archive.h"

namespace gabbro::report {

// Names are relative to the tree. Asks the runtimes (gabbro_probe) for the file `facts`.
std::vector<ReportFile> recorded_tree(const discovery::Machine& machine, Runtimes& runtimes);

// The words of a kernel command line that concern GPUs.
std::string gpu_words(const std::string& command_line);

}  // namespace gabbro::report
