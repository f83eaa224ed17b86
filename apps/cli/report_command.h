// `doctor --report` and `doctor --show`.
#pragma once

#include <string>

#include "src/report/part.h"

namespace gabbro::cli {

struct ReportRequest {
  std::string path;  // of the archive
  report::PartOptions part;
  int seconds = 600;
  bool faults = false, yes = false;  // yes: --faults is not asked about
};

// Makes the archive and says what is in it. Returns the exit code.
int make_card_report(const ReportRequest& request);
// Prints every file of an archive.
int show_card_report(const std::string& path);

}  // namespace gabbro::cli
