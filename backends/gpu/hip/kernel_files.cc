#include "backends/gpu/hip/kernel_files.h"

#include <algorithm>

namespace gabbro::gpu::hip {

std::string_view source_of_kernel(std::string_view kernel) {
  const auto found = std::ranges::lower_bound(kernel_files(), kernel, {}, &KernelFile::kernel);
  return found == kernel_files().end() || found->kernel != kernel ? std::string_view() : found->source;
}

std::string_view stem_of(std::string_view source) {
  source.remove_prefix(source.rfind('/') + 1);
  return source.substr(0, source.find('.'));
}

}  // namespace gabbro::gpu::hip
