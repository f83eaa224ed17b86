// Checkpoints (src/ops/grad.h) of functions that call modules.
#pragma once

#include "gabbro/nn/factory.h"
#include "gabbro/ops/grad.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

// gabbro::checkpoint, in which the function is given the same random numbers each time that it is called: numbers of
// this generator, from which the modules inside were made. Modules that count their inputs, as batch norm does, count
// them twice.
std::vector<Tensor> checkpoint(const Functions& f, std::span<const Tensor> inputs,
                               const std::shared_ptr<Generator>& generator);

}  // namespace gabbro::nn
#pragma GCC visibility pop
