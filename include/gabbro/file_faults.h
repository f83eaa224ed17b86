// Model files that are cut short, or whose disk fails, while they are mapped into memory.
#pragma once

#pragma GCC visibility push(default)
namespace gabbro {

enum class FileFault {
  kThrow,  // what is gone reads as zeros, and the computation that read it throws an Error with kFailed
  kExit    // one line on standard error that names the file, and exit code 1: for programs
};

// Installs a handler of SIGBUS for the files that the library has mapped; without it such a read ends the process by
// that signal. Faults at other addresses go to the handler that was there before. A later call changes the choice.
void handle_file_faults(FileFault choice);

}  // namespace gabbro
#pragma GCC visibility pop
