// Fusion: rewrites groups of instructions into one, where the device has a kernel for it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "src/plan/program.h"

namespace gabbro {

// Tells whether the device has a kernel for an instruction (over values of the program, all contiguous).
using HasKernel = std::function<bool(const Program&, const Instruction&)>;

// One rewriting of the whole program. The visible list is in fusion.cc, in the order in which they are applied.
struct FusionRule {
  const char* name;
  void (*apply)(Program& program, const HasKernel& has_kernel);
};

std::span<const FusionRule> fusion_rules();
void fuse(Program& program, const HasKernel& has_kernel);

// Producer and users of each value of a program, for the rules. Instructions are named by their index.
class DataFlow {
 public:
  static constexpr int kNone = -1;

  explicit DataFlow(const Program& program);

  int producer(int value) const { return producers_[value]; }  // kNone: a parameter
  std::span<const int> users(int value) const { return users_[value]; }
  bool is_result(int value) const { return is_result_[value]; }

  // The only instruction that uses the value, if it is this op and the value is not a result; else kNone.
  int only_user(int value, const Op& op) const;
  // The instruction that makes the value, if it is this op and the value has no other user and is not a result.
  int only_producer(int value, const Op& op) const;

 private:
  const Program& program_;
  Indexed<int> producers_;
  Indexed<std::vector<int>> users_;
  Indexed<bool> is_result_;
};

// Puts `fused` at the place of instruction `at` and takes out `removed` (which contains `at`). Removing is done by
// clearing: erase_removed() takes the cleared instructions out at the end.
void replace(Program& program, int at, std::span<const int> removed, Instruction fused);
void erase_removed(Program& program);

}  // namespace gabbro
