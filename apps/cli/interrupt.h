// Ctrl-C. Outside of a Cancellable it ends the program with code 130 at once; inside one it sets a flag, and a second
// one ends the program.
#pragma once

#include <atomic>

namespace gabbro::cli {

// A SIGINT that was ignored when the program started stays ignored.
void install_interrupt_handler();

class Cancellable {
 public:
  Cancellable();  // also clears the flag
  ~Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

  const std::atomic<bool>* flag() const;
  bool cancelled() const;
};

// Inside a Cancellable: waits until `descriptor` has something to read. False on Ctrl-C, also where that came before.
bool wait_for_input(int descriptor);

}  // namespace gabbro::cli
