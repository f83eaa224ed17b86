// The inside of Session. Private to src/engine.
#pragma once

#include <vector>

#include "gabbro/engine/session.h"
#include "src/engine/runner.h"

namespace gabbro {

struct Session::State {
  explicit State(const std::shared_ptr<Engine>& engine) : runner(engine), sequence(engine) {}

  Runner runner;
  Sequence sequence;
  std::vector<float> all_logits;  // of several steps
};

}  // namespace gabbro
