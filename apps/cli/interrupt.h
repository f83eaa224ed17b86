// Ctrl-C. Outside of a Cancelable it ends the program with code 130 at once; inside one it sets a flag, and a second
// one ends the program.
#pragma once

#include <atomic>

namespace gabbro::cli {

// A SIGINT that was ignored when the program started stays ignored.
void install_interrupt_handler();

class Cancelable {
 public:
  Cancelable();  // also clears the flag
  ~Cancelable();
  Cancelable(const Cancelable&) = delete;
  Cancelable& operator=(const Cancelable&) = delete;

  const std::atomic<bool>* flag() const;
  bool canceled() const;
};

// Ends the program with code 130, after its output is written, and without closing devices: one that hangs would never
// be closed.
[[noreturn]] void exit_interrupted();

// Inside a Cancelable: waits until `descriptor` has something to read. False on Ctrl-C, also where that came before.
bool wait_for_input(int descriptor);

}  // namespace gabbro::cli
