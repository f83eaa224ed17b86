// The worker process: an engine that is driven by messages.
#pragma once

namespace gabbro::worker {

// Serves the program at the other end of kSocket until it says so, or is gone. Returns the exit code of this process,
// which should do nothing else. A device that is lost ends the process with kLostDevice.
int run_child();

}  // namespace gabbro::worker
