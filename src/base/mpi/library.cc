#include "src/base/mpi/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "src/base/error.h"

namespace gabbro::mpi {
namespace {

constexpr size_t kMostVersionBytes = 8192;  // of the longest MPI_MAX_LIBRARY_VERSION_STRING, that of MPICH

int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The version that the library reports.
std::string version_of(void* opened) {
  using GetVersion = int (*)(char*, int*);
  const auto get = reinterpret_cast<GetVersion>(::dlsym(opened, "MPI_Get_library_version"));
  if (get == nullptr) return "an MPI before version 3";
  std::string text(kMostVersionBytes, '\0');
  int length = 0;
  get(text.data(), &length);
  return first_line(text.substr(0, static_cast<size_t>(length)).c_str());
}

void* open_library(std::string& file) {
  const char* const named = std::getenv("GABBRO_MPI_LIBRARY");
  // RTLD_GLOBAL: Open MPI's components look up the library's symbols.
  if (named != nullptr && *named != '\0') {
    file = named;
    void* const opened = ::dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    if (opened == nullptr) throw failed("GABBRO_MPI_LIBRARY: {}", ::dlerror());
    return opened;
  }
  for (const char* const name : {"libmpi.so.40", "libmpi.so", "libmpi.so.12"}) {
    file = name;
    if (void* const opened = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return opened;
  }
  throw Error(ErrorCode::kFailed,
              "this process was started as one of several, but libmpi.so.40 (Open MPI) is not found",
              "install Open MPI, or name its library in GABBRO_MPI_LIBRARY");
}

template <class Function>
void look_up(void* opened, const std::string& file, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(opened, name));
  if (function == nullptr) throw failed("{} has no {}: it is not a complete Open MPI", file, name);
}

Library open_all() {
  if (is_set("PMI_SIZE") && !is_set("OMPI_COMM_WORLD_SIZE"))
    throw Error(ErrorCode::kFailed, "the launcher of this process is not Open MPI's (PMI_SIZE is set)",
                "start it with Open MPI's mpirun: MPICH and Intel MPI have another binary interface");
  std::string file;
  void* const opened = open_library(file);
  Library mpi{};
  mpi.version = version_of(opened);
  mpi.world = ::dlsym(opened, "ompi_mpi_comm_world");
  mpi.byte = ::dlsym(opened, "ompi_mpi_byte");
  mpi.errors_return = ::dlsym(opened, "ompi_mpi_errors_return");
  if (mpi.world == nullptr || mpi.byte == nullptr || mpi.errors_return == nullptr)
    throw Error(ErrorCode::kFailed, fmt::format("{} is {}: only Open MPI is supported", file, mpi.version),
                "MPI has no common binary interface; name Open MPI's libmpi.so.40 in GABBRO_MPI_LIBRARY");
  const auto find = [&](const char* name, auto& function) { look_up(opened, file, name, function); };
  find("MPI_Init_thread", mpi.init_thread);
  find("MPI_Initialized", mpi.initialized);
  find("MPI_Finalize", mpi.finalize);
  find("MPI_Comm_rank", mpi.comm_rank);
  find("MPI_Comm_size", mpi.comm_size);
  find("MPI_Comm_dup", mpi.comm_dup);
  find("MPI_Comm_set_errhandler", mpi.comm_set_errhandler);
  find("MPI_Isend", mpi.isend);
  find("MPI_Irecv", mpi.irecv);
  find("MPI_Iallgather", mpi.iallgather);
  find("MPI_Ialltoall", mpi.ialltoall);
  find("MPI_Ibcast", mpi.ibcast);
  find("MPI_Ibarrier", mpi.ibarrier);
  find("MPI_Test", mpi.test);
  find("MPI_Cancel", mpi.cancel);
  find("MPI_Request_free", mpi.request_free);
  find("MPI_Error_string", mpi.error_string);
  return mpi;
}

}  // namespace

int launched_processes() {
  if (const int size = number_of("OMPI_COMM_WORLD_SIZE"); size > 0) return size;
  if (is_set("PMIX_RANK")) return std::max(1, number_of("SLURM_NTASKS"));
  return std::max(1, number_of("PMI_SIZE"));
}

const Library& library() {
  static const Library& opened = *new Library(open_all());  // until the process ends: MPI is not started twice
  return opened;
}

}  // namespace gabbro::mpi
