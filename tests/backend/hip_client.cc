// hip_client LIBRARY LATER: opens HIP and rocBLAS as the ROCm plugin does, after LIBRARY and before LATER (empty:
// none), and prints their files or the problem.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>

#include "backends/gpu/hip/library.h"

int main(int argc, char** argv) {
  const auto load = [&](int number) {
    return argc <= number || *argv[number] == '\0' || ::dlopen(argv[number], RTLD_NOW) != nullptr;
  };
  if (!load(1)) return 1;
  const auto& found = gabbro::gpu::hip::hip_library();
  std::printf("path=%s\nproblem=%s\n", found.path.c_str(), found.problem.c_str());
  link_map* map = nullptr;
  void* const blas = gabbro::gpu::hip::open_library({"librocblas.so.5"});
  if (blas != nullptr && ::dlinfo(blas, RTLD_DI_LINKMAP, &map) == 0) std::printf("blas=%s\n", map->l_name);
  if (!load(2)) return 1;
  std::printf("second=%s\n", gabbro::hip_search::two_copies().c_str());
  return 0;
}
