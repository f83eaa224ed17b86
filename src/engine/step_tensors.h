// The tensors of a step that layers read, in one order for both ends of a handoff between devices.
#pragma once

#include <vector>

#include "src/models/llm/step.h"

namespace gabbro {

std::vector<Tensor*> tensors_of(llm::Step& step);

}  // namespace gabbro
