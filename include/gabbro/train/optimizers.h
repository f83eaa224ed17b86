// The optimizers, with PyTorch's arguments and its formulas (those that it leaves out by default: weight decay is added
// to the gradient unless said otherwise).
#pragma once

#include "gabbro/train/optimizer.h"

#pragma GCC visibility push(default)
namespace gabbro::train {

// An optimizer whose groups have options of this struct.
template <class Options>
class OptimizerWith : public Optimizer {
 public:
  Options options(size_t group = 0) const {
    Options current = options_.at(group);
    current.lr = lr(group);
    current.weight_decay = weight_decay(group);
    return current;
  }
  // Sets the options of the next steps. Throws bad_input for what the constructor refuses; nothing is changed then.
  void set_options(const Options& options, size_t group) {
    Options& set = options_.at(group);
    check(options);
    set_weight_decay(options.weight_decay, group);
    set_lr(options.lr, group);
    set = options;
  }

 protected:
  OptimizerWith(std::vector<ParameterGroup> groups, const Options& options, std::vector<std::string> states)
      : Optimizer(std::move(groups), options.lr, options.weight_decay, std::move(states)),
        options_(this->groups(), options) {}
  virtual void check(const Options& options) const = 0;

  std::vector<Options> options_;  // by group
};

// A whole model as one group.
inline std::vector<ParameterGroup> all_of(nn::Module& model) { return {{.parameters = model.parameters()}}; }

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  // Sutskever et al. 2013; needs a momentum and no dampening
};
// b = momentum · b + (1 - dampening) · g (the first time g); p -= lr · b, or lr · (g + momentum · b) with Nesterov.
class Sgd : public OptimizerWith<SgdOptions> {
 public:
  explicit Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options = {});
  explicit Sgd(nn::Module& model, const SgdOptions& options = {}) : Sgd(all_of(model), options) {}

 protected:
  void check(const SgdOptions& options) const override;
  bool uses(size_t state, size_t group) const override;
  Tensor updated(const Update& u) override;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  bool amsgrad = false;  // Reddi et al. 2018: the largest second moment so far counts
};
// Kingma & Ba 2015: p -= lr / (1 - β1ᵗ) · m / (sqrt(v / (1 - β2ᵗ)) + ε).
class Adam : public OptimizerWith<AdamOptions> {
 public:
  explicit Adam(std::vector<ParameterGroup> groups, const AdamOptions& options = {});
  explicit Adam(nn::Module& model, const AdamOptions& options = {}) : Adam(all_of(model), options) {}

 protected:
  void check(const AdamOptions& options) const override;
  bool uses(size_t state, size_t group) const override;
  Tensor updated(const Update& u) override;
  Tensor moved(const Update& u, const Tensor& parameter, const Tensor& gradient);
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 1e-2;
  bool amsgrad = false;
};
// Loshchilov & Hutter 2019: Adam with p · (1 - lr · decay) before, in place of a larger gradient.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options = {});
  explicit AdamW(nn::Module& model, const AdamWOptions& options = {}) : AdamW(all_of(model), options) {}

 protected:
  Tensor updated(const Update& u) override;
};

struct LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
// Chen et al. 2023, algorithm 2: p · (1 - lr · decay) - lr · sign(β1 · m + (1 - β1) · g); m = β2 · m + (1 - β2) · g.
class Lion : public OptimizerWith<LionOptions> {
 public:
  explicit Lion(std::vector<ParameterGroup> groups, const LionOptions& options = {});
  explicit Lion(nn::Module& model, const LionOptions& options = {}) : Lion(all_of(model), options) {}

 protected:
  void check(const LionOptions& options) const override;
  Tensor updated(const Update& u) override;
};

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, epsilon = 1e-10;
};
// Duchi et al. 2011: s += g²; p -= lr / (1 + (t - 1) · decay) · g / (sqrt(s) + ε).
class Adagrad : public OptimizerWith<AdagradOptions> {
 public:
  explicit Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& options = {});
  explicit Adagrad(nn::Module& model, const AdagradOptions& options = {}) : Adagrad(all_of(model), options) {}

 protected:
  void check(const AdagradOptions& options) const override;
  double initial(size_t group) const override { return options_.at(group).initial_accumulator_value; }
  Tensor updated(const Update& u) override;
};

struct RmsPropOptions {
  double lr = 1e-2, alpha = 0.99, epsilon = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;  // Graves 2013: the variance of the gradients, not their mean square
};
// Hinton's lecture 6e (2012): v = α · v + (1 - α) · g²; p -= lr · g / (sqrt(v) + ε).
class RmsProp : public OptimizerWith<RmsPropOptions> {
 public:
  explicit RmsProp(std::vector<ParameterGroup> groups, const RmsPropOptions& options = {});
  explicit RmsProp(nn::Module& model, const RmsPropOptions& options = {}) : RmsProp(all_of(model), options) {}

 protected:
  void check(const RmsPropOptions& options) const override;
  bool uses(size_t state, size_t group) const override;
  Tensor updated(const Update& u) override;
};

}  // namespace gabbro::train
#pragma GCC visibility pop
