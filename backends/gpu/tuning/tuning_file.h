// The file in which measurements are kept: the candidate for a shape that was the fastest on a device, and the time of
// each in relation to it: seconds depend on the clock. Text, a line an entry. A file that is damaged is as good as
// none; one that is not ours is left alone.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::gpu {

struct TuningEntry {
  std::string chosen;                                      // one of `candidates`
  std::vector<std::pair<std::string, double>> candidates;  // time / that of `chosen`; those that came out right
};

// Results by device (hardware, driver, libraries and their versions) and shape.
using TuningTable = std::map<std::pair<std::string, std::string>, TuningEntry>;

// In place of a shape: the entry is the verdict on a runtime's graphs (graph_policy.h), and no measurement.
inline constexpr const char* kGraphVerdict = "graphs";
// Entries whose shape begins so are verdicts of checks and not measurements: `chosen` is the verdict.
inline constexpr std::string_view kCheckPrefix = "check of ";

class TuningFile {
 public:
  explicit TuningFile(std::string path) : path_(std::move(path)) {}

  // $GABBRO_TUNING_FILE, which may be set to nothing: then nothing is kept. Else tuning.txt in $GABBRO_HOME,
  // $XDG_CACHE_HOME/gabbro or ~/.cache/gabbro; empty where none of these variables is set.
  static std::string default_path();

  const std::string& path() const { return path_; }  // empty: nothing is kept

  // Empty without a file. `problem` becomes one line if the file cannot be read, else empty.
  TuningTable load(std::string& problem) const;

  // Adds the entries to what the file holds by now, in one step: another process reads the old file or the new one.
  // What went wrong in one line, or nothing.
  std::string store(const TuningTable& entries) const;

 private:
  enum class State { kMissing, kRead, kDamaged, kForeign };
  State read(TuningTable& table, std::string& problem) const;

  std::string path_;
};

}  // namespace gabbro::gpu
