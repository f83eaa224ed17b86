// Reports of devices besides their results: the names of the last launches, for the message of a fault, and lines
// for the user, such as a wait without progress. The library prints nothing and installs no signal handler; programs
// do.
#pragma once

#include <string>

#include "gabbro/backend_abi.h"

namespace gabbro {

// "linear q4_0, rms_norm": the last launches of this process, the newest first; empty where no device counts them.
std::string last_launches();

// From here on SIGABRT, which a GPU runtime raises after a fault in a kernel, first writes a line about the last
// launches to `descriptor`.
void install_abort_handler(int descriptor);

// Gets the lines for the user, from any thread. Null, as in the beginning: they are dropped.
void set_notice_handler(void (*handler)(const char* line));

// For Device: backends of open devices are asked.
void add_open_backend(const abi::Backend* backend);
void remove_open_backend(const abi::Backend* backend);

}  // namespace gabbro
