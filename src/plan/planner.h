// Turns a program into the steps, layouts and buffers of a Plan.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "src/plan/plan.h"

namespace gabbro {

class Planner {
 public:
  explicit Planner(Plan& plan, std::shared_ptr<Device> device);
  void run();

 private:
  using Layouts = std::vector<Layout>;

  // Whether its results have no elements: e.g. unused logits of a prompt's chunk.
  bool is_empty(const Instruction& instruction) const;
  // Whether an instruction computed the same before: then its outputs stand for that one's.
  bool eliminate_common_subexpression(const Instruction& instruction);
  void emit(const Instruction& original);
  void emit_view(const Instruction& instruction);
  void emit_step(const Instruction& instruction, std::shared_ptr<KernelHandle> kernel);
  int emit_copy(int value);  // a contiguous copy; gives its value number
  void define_outputs(const Instruction& instruction);
  std::shared_ptr<KernelHandle> find_kernel(const Instruction& instruction, const Layouts& inputs,
                                            const Layouts& outputs) const;
  Layouts layouts_of(std::span<const int> values) const;
  void assign_memory();
  void describe_results();
  size_t bytes_of(int value) const;
  int& root(int value) { return storage_of_[value]; }
  void grow();  // per-value tables follow program_.values

  Plan& plan_;
  Program& program_;
  std::shared_ptr<Device> device_;
  Indexed<int> storage_of_;  // by value: the value whose memory it uses (itself, or the base of a view)
  Indexed<int> alias_of_;    // by value: the one that it stands for, or itself
  std::unordered_map<std::string, std::vector<int>> known_;  // by instruction_key: the outputs
};

}  // namespace gabbro
