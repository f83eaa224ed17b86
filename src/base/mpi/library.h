// Open MPI's library, opened at run time: the calls that Gabbro makes. MPI has no common binary interface, so that
// another implementation (MPICH, Intel MPI) is refused by its name.
#pragma once

#include <string>

namespace gabbro::mpi {

// Objects of Open MPI are pointers; predefined ones are addresses of symbols (its mpi.h).
using Handle = void*;
using Request = void*;

inline constexpr int kThreadSerialized = 2;  // MPI_THREAD_SERIALIZED
inline constexpr int kSuccess = 0;

struct Library {
  int (*init_thread)(int*, char***, int required, int* provided);
  int (*initialized)(int* flag);
  int (*finalize)();
  int (*comm_rank)(Handle comm, int* rank);
  int (*comm_size)(Handle comm, int* size);
  int (*comm_dup)(Handle comm, Handle* copy);
  int (*comm_set_errhandler)(Handle comm, Handle handler);
  int (*isend)(const void* data, int count, Handle type, int to, int tag, Handle comm, Request* request);
  int (*irecv)(void* data, int count, Handle type, int from, int tag, Handle comm, Request* request);
  int (*iallgather)(const void*, int, Handle, void*, int, Handle, Handle comm, Request* request);
  int (*ialltoall)(const void*, int, Handle, void*, int, Handle, Handle comm, Request* request);
  int (*ibcast)(void* data, int count, Handle type, int root, Handle comm, Request* request);
  int (*ibarrier)(Handle comm, Request* request);
  int (*test)(Request* request, int* flag, void* status);
  int (*cancel)(Request* request);
  int (*request_free)(Request* request);
  int (*error_string)(int code, char* text, int* length);

  Handle world, byte, errors_return;
  std::string version;  // "Open MPI v4.1.4, ..."
};

// The number of processes that a launcher (mpirun, srun) has started along with this one, by the environment; 1: none.
int launched_processes();

// Opens the library, once for the process. Throws failed() in one line if there is none, or if the library or the
// launcher is another implementation's. GABBRO_MPI_LIBRARY names another file.
const Library& library();

}  // namespace gabbro::mpi
