// The program as one of several processes that mpirun has started: all run the same command, rank 0 shows the result.
#pragma once

#include "apps/cli/options.h"

namespace gabbro::cli {

// Joins the others. In ranks other than 0 nothing goes to standard output from now on, and only errors to standard
// error. Does nothing without mpirun. Throws what mpi::Ranks::shared() throws.
void join_processes(CommonOptions& common);

// Gives all ranks rank 0's value, such as a random seed.
void share_with_processes(uint64_t& value);

}  // namespace gabbro::cli
