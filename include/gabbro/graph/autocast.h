// Mixed precision: the dtype in which the thread's products are computed, instead of the operands' own. Ops ask for it
// as they are called (src/ops/autocast.h); compositions and gradients are what was decided then, so they do not.
#pragma once

#include <optional>

#include "gabbro/dtype.h"

#pragma GCC visibility push(default)
namespace gabbro {

// f16 or bf16; none where nothing is cast.
std::optional<DType> autocast_dtype();

// Sets that for as long as it lives. Throws bad_input for another dtype.
class Autocast {
 public:
  explicit Autocast(std::optional<DType> dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<DType> before_;
};
struct NoAutocast : Autocast {
  NoAutocast() : Autocast(std::nullopt) {}
};

}  // namespace gabbro
#pragma GCC visibility pop
