// The kernels of a device: the plugin's own code if the runtime takes it, else compiled on this machine. A source's
// code is loaded when the first of its kernels is asked for.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/code_cache.h"
#include "backends/gpu/hip/code_target.h"
#include "backends/gpu/hip/compilations.h"
#include "backends/gpu/hip/runtime.h"

namespace gabbro::gpu::hip {

// The built-in code object for a device of this architecture ("gfx90a:sramecc+:xnack-").
CodeChoice built_code(std::string_view architecture);

// Loaded on the current device; unloaded with this object. For one caller at a time.
class CodeObjects {
 public:
  // Loads the code of one source, so that it is known whether the runtime takes the plugin's code. Throws ApiError.
  explicit CodeObjects(const std::string& architecture);
  ~CodeObjects();
  CodeObjects(const CodeObjects&) = delete;
  CodeObjects& operator=(const CodeObjects&) = delete;

  // Null if the target has no such kernel. The first kernel of a source may wait for the compiler, up to a minute; what
  // was compiled is cached (code_cache.h). Throws ApiError if the code is refused or does not compile.
  hipFunction_t find(const std::string& kernel);
  // The kernel `name` of a source made at run time, cached under that name. Throws ApiError.
  hipFunction_t add(const std::string& name, const std::string& source);
  // "native kernels", or where the others come from and are cached.
  std::string description() const;

 private:
  struct Loaded {
    std::vector<char> code;  // the runtime reads it as long as the module is loaded
    hipModule_t module = nullptr;
  };

  // The module of a source of kernels/, loaded if it is not.
  hipModule_t load(std::string_view source);
  bool load_built(std::string_view source, Loaded& loaded);
  void load_compiled(const std::string& name, Loaded& loaded, const std::function<std::vector<char>()>& compile);
  std::vector<char> compile(const std::string& source, std::string_view text, const std::atomic<bool>* cancel);
  void begin_companions(std::string_view source);

  const std::string architecture_;
  const CodeCache cache_;
  CodeChoice choice_;
  std::string refusal_;              // the runtime's error for the plugin's own code
  std::atomic<bool> cached_ = true;  // false once a file could not be written
  bool companions_begun_ = false;
  std::map<std::string, Loaded, std::less<>> modules_;  // by source, or by the name of a kernel made at run time
  Compilations compilations_;
};

}  // namespace gabbro::gpu::hip
