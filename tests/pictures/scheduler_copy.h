// Copies of a tiny pipeline with the schedulers whose pictures the fixtures have.
#pragma once

#include <span>
#include <string>

namespace gabbro::pictures {

struct SchedulerRow {
  const char* name;    // of the fixture's tensors
  const char* config;  // the class and its options, as JSON
};
std::span<const SchedulerRow> scheduler_rows();

// A copy of a pipeline's folder with this scheduler. The next call writes the same folder.
std::string with_scheduler(const std::string& pipeline, const SchedulerRow& row);

}  // namespace gabbro::pictures
