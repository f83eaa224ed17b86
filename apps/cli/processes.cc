#include "apps/cli/processes.h"

#include <fcntl.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/mpi/ranks.h"

namespace gabbro::cli {

void join_processes(CommonOptions& common) {
  if (mpi::launched_processes() == 1) return;
  const size_t rank = mpi::Ranks::shared().rank();
  common.several.over_processes = true;
  if (rank == 0) return;
  common.log_level = "error";
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0) throw failed("/dev/null cannot be opened for writing");
  ::close(nowhere);
}

void share_with_processes(uint64_t& value) {
  if (mpi::launched_processes() > 1) mpi::Ranks::shared().broadcast(&value, sizeof(value));
}

}  // namespace gabbro::cli
