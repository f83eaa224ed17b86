// Ctrl-C. Outside of a Cancellable it ends the program with code 130 at once; inside one it sets a flag, and a second
// one ends the program.
#pragma once

#include <atomic>

namespace gabbro::cli {

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

}  // namespace gabbro::cli
