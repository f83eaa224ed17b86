// Work that may crash or hang a process, in a child: gabbro_probe, which opens this plugin and runs a task there
// (task.h).
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace gabbro::gpu::hip {

struct HelperProgram {
  std::string path;    // of gabbro_probe
  std::string plugin;  // the plugin that it opens
  std::string hip;     // the HIP library for the plugin there; empty: the plugin searches for it

  // The program next to this plugin, with this process's HIP library. Throws ApiError if the program is missing.
  static HelperProgram next_to_plugin();
};

struct HelperAnswer {
  bool succeeded = false;
  std::string problem;  // one line, if it did not succeed: "the compiler crashed: signal 11 (Segmentation fault)"
  std::string output;   // what the task printed

  bool says(std::string_view key) const;  // whether a line of the output begins with the key
};

// Runs the task `words`. `what` is the subject of `problem`: "the compiler". Kills the child at the limit, or when
// `cancel` (may be null) becomes true.
HelperAnswer run_helper(const HelperProgram& program, const std::vector<std::string>& words, const std::string& what,
                        std::chrono::seconds limit, const std::atomic<bool>* cancel = nullptr);

}  // namespace gabbro::gpu::hip
