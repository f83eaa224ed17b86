#include "backends/gpu/hip/progress.h"

#include <atomic>

#include "src/base/progress_entry.h"

namespace gabbro::gpu::hip {
namespace {

std::atomic<abi::ReportProgress> report{nullptr};

}  // namespace

void report_progress(const std::string& line) {
  if (const abi::ReportProgress to = report.load()) to(line.c_str());
}

}  // namespace gabbro::gpu::hip

extern "C" __attribute__((visibility("default"))) void gabbro_set_progress(gabbro::abi::ReportProgress to) {
  gabbro::gpu::hip::report.store(to);
}
