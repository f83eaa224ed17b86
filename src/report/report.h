// `gabbro doctor --report`: runs the parts in child processes, in sequence, and writes the archive after each.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "src/report/archive.h"
#include "src/report/part.h"

namespace gabbro::report {

// Number of the form of an archive; tools/report reads the ones up to its own.
inline constexpr int kSchema = 1;

struct ReportOptions {
  std::string path;  // of the archive
  PartOptions part;
  bool faults = false;               // also provoke a fault
  std::vector<std::string> command;  // that runs a part, before its name and its folder
  int seconds = 600;                 // for all parts together; each has its share
  // Called as a part begins (with an empty state) and ends.
  std::function<void(const std::string& part, const std::string& state, double seconds)> progress;
  const std::atomic<bool>* stop = nullptr;  // ends the part that runs, and leaves out the others
};

// The files of the archive, which is written also where parts crash or hang. Throws Error if it cannot be written.
std::vector<ReportFile> make_report(const ReportOptions& options);

// Child's side: runs the part, with its files below `folder`. Throws bad_input for an unknown part.
void run_part(const std::string& name, const std::string& folder, const PartOptions& options);

}  // namespace gabbro::report
