// Fusion: rewrites groups of instructions into one, where the device has a kernel for it.
#pragma once

#include <functional>
#include <memory>

#include "src/graph/program.h"

namespace gabbro {

// Tells whether the device has a kernel for an instruction (over values of the program, all contiguous).
using HasKernel = std::function<bool(const Program&, const Instruction&)>;

// One rewriting of the whole program. The visible list of them is in fusion.cc, in the order in which they are tried.
struct FusionRule {
  const char* name;
  void (*apply)(Program& program, const HasKernel& has_kernel);
};

std::span<const FusionRule> fusion_rules();
void fuse(Program& program, const HasKernel& has_kernel);

}  // namespace gabbro
