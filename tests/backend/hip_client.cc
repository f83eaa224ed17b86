// hip_client [LIBRARY]: opens HIP and rocBLAS as the ROCm plugin does, after LIBRARY, and prints their files or the
// problem.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>

#include "backends/gpu/hip/library.h"

int main(int argc, char** argv) {
  if (argc > 1 && ::dlopen(argv[1], RTLD_NOW) == nullptr) return 1;
  const auto& found = gabbro::gpu::hip::hip_library();
  std::printf("path=%s\nproblem=%s\n", found.path.c_str(), found.problem.c_str());
  link_map* map = nullptr;
  void* const blas = gabbro::gpu::hip::open_library({"librocblas.so.5"});
  if (blas != nullptr && ::dlinfo(blas, RTLD_DI_LINKMAP, &map) == 0) std::printf("blas=%s\n", map->l_name);
  return 0;
}
