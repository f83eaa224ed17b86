// Reverse-mode gradients. Histories (history.h) are walked backward; the results are lazy tensors, planned and computed
// with the rest of their evaluation.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gabbro/graph/history.h"

#pragma GCC visibility push(default)
namespace gabbro {

struct GradientOptions {
  Tensor seed{};                // the gradient of the output; 1 where it is undefined and the output one number
  bool differentiable = false;  // the gradients have histories too, for gradients of higher order
};

// d output / d input for each of the inputs, in its shape and dtype; zeros where the output does not depend on it.
// Inputs may be leaves or intermediates. Throws bad_input "[gradients] ..." for an output or input that does not
// require a gradient, an output of several numbers without a seed, a seed that does not fit, and "[op] has no
// gradient".
std::vector<Tensor> gradients(const Tensor& output, std::span<const Tensor> inputs,
                              const GradientOptions& options = {});

// Adds the gradients of all leaves that the output depends on to their `gradient_of`, and frees the output's
// history unless `keep_history`. They stay until clear_gradient, or zero_grad of a module or an optimizer.
struct BackwardOptions {
  Tensor seed{};
  bool keep_history = false;
};
void backward(const Tensor& output, const BackwardOptions& options = {});
// Undefined where backward() never came to it, and after clear_gradient. As long as it was not evaluated it may hold
// its leaf, and with that itself.
Tensor gradient_of(const Tensor& leaf);
// In its place, as clipping wants it. Throws bad_input "[gradient] ..." where it is none of this leaf.
void set_gradient(const Tensor& leaf, const Tensor& gradient);
void clear_gradient(const Tensor& leaf);

// The value of f, one number, and its gradients by the inputs, which f gets as leaves. Inside of another
// value_and_grad the gradients can be differentiated themselves.
struct ValueAndGradients {
  Tensor value;
  std::vector<Tensor> gradients;
};
using Function = std::function<Tensor(std::span<const Tensor>)>;
ValueAndGradients value_and_grad(const Function& f, std::span<const Tensor> inputs);

// f(inputs); only the inputs are retained for the gradient: the backward pass computes f once more. Tensors that f
// captures have gradients like the inputs. f must do the same each time, so random keys have to come from outside.
using Functions = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
std::vector<Tensor> checkpoint(const Functions& f, std::span<const Tensor> inputs);

// A view of x without a history.
Tensor detach(const Tensor& x);

}  // namespace gabbro
#pragma GCC visibility pop
