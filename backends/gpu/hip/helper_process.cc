#include "backends/gpu/hip/helper_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "backends/gpu/api.h"
#include "backends/gpu/hip/library.h"
#include "backends/gpu/hip/task.h"
#include "src/base/child_process.h"

namespace gabbro::gpu::hip {
namespace {

constexpr size_t kLongestLine = 160;

// The rest of the first line that begins with `key`; empty without one.
std::string_view line_of(std::string_view output, std::string_view key) {
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    if (line.starts_with(key)) return line.substr(key.size());
    output.remove_prefix(std::min(output.size(), line.size() + 1));
  }
  return {};
}

std::string_view last_line(std::string_view output) {
  while (output.ends_with('\n')) output.remove_suffix(1);
  return output.substr(output.rfind('\n') + 1);  // npos + 1 is the start
}

}  // namespace

HelperProgram HelperProgram::next_to_plugin() {
  const std::filesystem::path plugin = path_of(reinterpret_cast<const void*>(&run_helper));
  const std::filesystem::path program = plugin.parent_path() / "gabbro_probe";
  if (::access(program.c_str(), X_OK) != 0) {
    throw ApiError(abi::StatusCode::kFailed,
                   fmt::format("rocm: the helper program gabbro_probe is not next to {}", plugin.string()));
  }
  return {.path = program, .plugin = plugin, .hip = hip_library().path};
}

bool HelperAnswer::says(std::string_view key) const { return !line_of(output, key).empty(); }

HelperAnswer run_helper(const HelperProgram& program, const std::vector<std::string>& words, const std::string& what,
                        std::chrono::seconds limit, const std::atomic<bool>* cancel) {
  std::vector<std::string> command = {program.path, "task", program.plugin, program.hip};
  command.insert(command.end(), words.begin(), words.end());
  const ChildResult child = run_child(command, limit, cancel);
  HelperAnswer answer{.succeeded = child.succeeded, .problem = {}, .output = child.output};
  if (child.succeeded) return answer;
  for (const std::string_view key : {kErrorKey, kFaultKey, kUnknownKey}) {
    if (answer.problem.empty()) answer.problem = line_of(child.output, key);
  }
  if (!answer.problem.empty()) return answer;
  if (!child.started) {
    answer.problem = fmt::format("{} cannot be started: {}", program.path, child.ending);
  } else if (cancel != nullptr && *cancel) {
    answer.problem = what + " was canceled";
  } else if (child.timed_out) {
    answer.problem = fmt::format("{} did not end within {} s", what, limit.count());
  } else {
    const std::string_view said = last_line(child.output).substr(0, kLongestLine);
    answer.problem =
        fmt::format("{} crashed: {}{}", what, child.ending, said.empty() ? "" : fmt::format(", after '{}'", said));
  }
  return answer;
}

}  // namespace gabbro::gpu::hip
