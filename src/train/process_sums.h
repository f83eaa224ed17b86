// Gradients of data parallel training over processes, which exchange them through MPI and the host's memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/base/mpi/ranks.h"
#include "src/graph/node.h"

namespace gabbro::train {

class ProcessSums {
 public:
  explicit ProcessSums(mpi::Ranks& ranks) : ranks_(ranks) {}

  // False: gradients stay with their process until the next averages() for which it is true again.
  void set_active(bool is_active) { is_active_ = is_active; }
  // Replaces the gradients by their means over the ranks, (g0 + g1 + ...) / ranks, added up in f32 (f64 for f64). A
  // parameter without a gradient counts as zeros, unless no rank has one. Gradients that parameters hold since they
  // were left out are added first. All ranks call this with the same parameters.
  void average(std::span<const Tensor> parameters, std::vector<Tensor>& gradients,
               const std::atomic<bool>* cancel = nullptr);
  // The values of rank 0, on the tensors' devices.
  std::vector<Tensor> of_first(std::span<const Tensor> tensors, const std::atomic<bool>* cancel = nullptr);
  // The sum over the ranks of a floating tensor.
  Tensor sum(const Tensor& tensor, const std::atomic<bool>* cancel = nullptr);

 private:
  mpi::Ranks& ranks_;
  bool is_active_ = true;
  bool has_left_out_ = false;
};

}  // namespace gabbro::train
