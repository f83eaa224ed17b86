// An optional second entry point of a plugin, next to the contract of gabbro/backend_abi.h: where it reports work that
// takes long before it begins, such as compiling kernels.
#pragma once

namespace gabbro::abi {

inline constexpr const char* kProgressEntry = "gabbro_set_progress";

// One line for people. Called from any thread.
using ReportProgress = void (*)(const char* line);
// extern "C" void gabbro_set_progress(ReportProgress report); null: nothing is reported, as at first.
using SetProgress = void (*)(ReportProgress report);

}  // namespace gabbro::abi
