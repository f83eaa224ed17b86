// Normalization, named and initialized as in torch.nn.
#pragma once

#include "gabbro/nn/module.h"

#pragma GCC visibility push(default)
namespace gabbro::nn {

struct BatchNormOptions {
  int64_t num_features = 0;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // of the running moments; none: they are the mean over all batches
  bool affine = true;
  bool track_running_stats = true;
};

// x [N, C, ...] with the moments of the batch in training, and where there are no others; else with the running ones,
// which training moves: they are new tensors then, which want to be evaluated with the rest of the step.
class BatchNorm : public Layer {
 public:
  BatchNorm(const Factory& make, const BatchNormOptions& options, int least_rank, int most_rank);
  Tensor forward(const Tensor& x) override;
  const BatchNormOptions& options() const { return options_; }
  // eps, momentum and track_running_stats count from the next call on; the rest shaped the tensors.
  void set_options(const BatchNormOptions& options) { options_ = options; }

  Tensor weight, bias;               // [C], or undefined
  Tensor running_mean, running_var;  // [C], or undefined
  Tensor num_batches_tracked;        // i64 ()

 private:
  Tensor from_batch(const Tensor& x);

  BatchNormOptions options_;
  int least_rank_, most_rank_;
};
struct BatchNorm1d : BatchNorm {
  BatchNorm1d(const Factory& make, const BatchNormOptions& options) : BatchNorm(make, options, 2, 3) {}
};
struct BatchNorm2d : BatchNorm {
  BatchNorm2d(const Factory& make, const BatchNormOptions& options) : BatchNorm(make, options, 4, 4) {}
};
struct BatchNorm3d : BatchNorm {
  BatchNorm3d(const Factory& make, const BatchNormOptions& options) : BatchNorm(make, options, 5, 5) {}
};

struct LayerNormOptions {
  std::vector<int64_t> normalized_shape{};  // the last axes of x
  double eps = 1e-5;
  bool elementwise_affine = true;
  bool bias = true;
};
class LayerNorm : public Layer {
 public:
  LayerNorm(const Factory& make, const LayerNormOptions& options);
  Tensor forward(const Tensor& x) override;
  const LayerNormOptions& options() const { return options_; }
  void set_options(const LayerNormOptions& options);  // normalized_shape and eps

  Tensor weight, bias;  // [normalized_shape], or undefined

 private:
  LayerNormOptions options_;
  Shape shape_;
};

struct RMSNormOptions {
  std::vector<int64_t> normalized_shape{};
  std::optional<double> eps{};  // none: the distance from 1 to the next number of x's dtype
  bool elementwise_affine = true;
};
class RMSNorm : public Layer {
 public:
  RMSNorm(const Factory& make, const RMSNormOptions& options);
  Tensor forward(const Tensor& x) override;
  const RMSNormOptions& options() const { return options_; }
  void set_options(const RMSNormOptions& options);  // normalized_shape and eps

  Tensor weight;  // [normalized_shape], or undefined

 private:
  RMSNormOptions options_;
  Shape shape_;
};

struct GroupNormOptions {
  int64_t num_groups = 0, num_channels = 0;
  double eps = 1e-5;
  bool affine = true;
};
class GroupNorm : public Layer {
 public:
  GroupNorm(const Factory& make, const GroupNormOptions& options);
  Tensor forward(const Tensor& x) override;
  const GroupNormOptions& options() const { return options_; }
  void set_options(const GroupNormOptions& options) { options_ = options; }  // num_groups and eps

  Tensor weight, bias;  // [C], or undefined

 private:
  GroupNormOptions options_;
};

}  // namespace gabbro::nn
#pragma GCC visibility pop
