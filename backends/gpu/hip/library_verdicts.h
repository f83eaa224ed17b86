// Verdicts on a library's matrix products on a device: each class of shapes is first run in a child process, where a
// crash or a fault of the device ends only the child. They are kept in the tuning file.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "backends/gpu/api.h"
#include "backends/gpu/tuning/tuning_file.h"

namespace gabbro::gpu::hip {

// All shapes that one run stands for: the lengths rounded up to powers of two. "f16 to f32, 512 x 4096 x 1024, w
// transposed, bias". Without tabs and line breaks.
std::string class_of(const api::GemmShape& shape);

struct LibraryVerdict {
  std::string problem;    // one line; empty if the library works
  bool is_fault = false;  // it crashed, hung or made the device fail: the library is not used at all
};

class LibraryVerdicts {
 public:
  // Runs the library in a child process. Nothing if that is not possible now, as without memory.
  using Check = std::function<std::optional<LibraryVerdict>()>;

  // `device` with the runtime's version, which verdicts hold for. Entries of `file` that are damaged count as missing.
  LibraryVerdicts(std::string device, TuningFile file);

  // Why `library`, which is named with its version, is not used for `shape` (class_of, or another word of the caller);
  // empty if it works. Calls `check` if that is not known, and keeps the verdict.
  std::string problem(const std::string& library, const std::string& shape, const Check& check);
  // Why the library is not used for any shape; empty if there is no fault.
  std::string fault(const std::string& library) const;

 private:
  const TuningEntry* find(const std::string& library, const std::string& shape) const;
  void keep(const std::string& library, const std::string& shape, const std::string& text);

  std::string device_;
  TuningFile file_;
  TuningTable table_;
};

}  // namespace gabbro::gpu::hip
