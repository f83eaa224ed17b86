// The kernels of a device: the plugin's own code where it runs there, else compiled on this machine.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/runtime.h"

namespace gabbro::gpu::hip {

// The built-in code object for a device of this architecture ("gfx90a:sramecc+:xnack-").
CodeChoice built_code(std::string_view architecture);

// Loaded on the current device; unloaded with this object.
class CodeObjects {
 public:
  // Throws ApiError. Compiling takes a minute; what was compiled is kept (code_cache.h).
  explicit CodeObjects(const std::string& architecture);
  ~CodeObjects();
  CodeObjects(const CodeObjects&) = delete;
  CodeObjects& operator=(const CodeObjects&) = delete;

  hipFunction_t find(const char* name) const;  // null where there is none
  // Compiles a source made at run time, or takes what was kept of it, so that find() knows its kernel `name`. Throws
  // ApiError.
  void add(const std::string& name, const std::string& source);
  // "native kernels", or where the others come from and are kept.
  const std::string& description() const { return description_; }

 private:
  bool load_images();
  void load_compiled(const std::string& architecture);

  std::string architecture_;
  std::vector<std::vector<char>> compiled_;  // the runtime reads it as long as the module is there
  std::vector<hipModule_t> modules_;
  std::string description_;
};

}  // namespace gabbro::gpu::hip
