#include "tests/nn/module_cases.h"

#include "gabbro/nn/activation.h"
#include "gabbro/nn/conv.h"
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/embedding.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/loss.h"
#include "gabbro/nn/norm.h"
#include "gabbro/nn/pool.h"

namespace gabbro::nn {
namespace {

using X = std::vector<Tensor>;

// An activation on elements that are not its corners.
template <class M, class... Arguments>
MakeCase activation(Arguments... arguments) {
  return [=](const Factory&) -> ModuleCase {
    const auto layer = std::make_shared<M>(arguments...);
    return {layer, [layer](const X& x) { return X{layer->forward(x[0] + 0.03)}; }};
  };
}

template <class M, class... Arguments>
MakeCase layer(Arguments... arguments) {
  return [=](const Factory& make) { return layer_case<M>(make, arguments...); };
}

template <class M, class... Arguments>
MakeCase pool(Arguments... arguments) {
  return [=](const Factory&) { return layer_case<M>(arguments...); };
}

// A loss of f(x), g(y).
template <class M, class... Arguments>
MakeCase loss(Tensor (*of_x)(const Tensor&), Tensor (*of_y)(const Tensor&), Arguments... arguments) {
  return [=](const Factory&) -> ModuleCase {
    const auto module = std::make_shared<M>(arguments...);
    return {module, [=](const X& x) { return X{(*module)(of_x(x[0]), of_y(x[1]))}; }};
  };
}

Tensor same(const Tensor& x) { return x; }
Tensor moved(const Tensor& x) { return x + 0.03; }
Tensor sigmoid_of(const Tensor& x) { return sigmoid(x); }

void add_layers(ModuleCases& c) {
  c["linear"] = layer<Linear>(LinearOptions{.in_features = 5, .out_features = 3});
  c["linear_no_bias"] = layer<Linear>(LinearOptions{.in_features = 5, .out_features = 3, .bias = false});
  c["bilinear"] = [](const Factory& make) -> ModuleCase {
    const auto m =
        std::make_shared<Bilinear>(make, BilinearOptions{.in1_features = 3, .in2_features = 4, .out_features = 2});
    return {m, [m](const X& x) { return X{(*m)(x[0], x[1])}; }};
  };
  c["sequential"] = [](const Factory& make) {
    const auto dense = [&](int64_t in, int64_t out) {
      return std::make_shared<Linear>(make, LinearOptions{.in_features = in, .out_features = out});
    };
    const auto inner =
        std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{dense(6, 2), std::make_shared<Tanh>()});
    return layer_case<Sequential>(std::vector<std::shared_ptr<Layer>>{dense(4, 6), std::make_shared<ReLU>(), inner});
  };
  c["embedding"] = layer<Embedding>(EmbeddingOptions{.num_embeddings = 7, .embedding_dim = 3});
  c["embedding_padding"] =
      layer<Embedding>(EmbeddingOptions{.num_embeddings = 7, .embedding_dim = 3, .padding_idx = -4});
  c["dropout_eval"] = layer<Dropout>(0.5);
}

void add_images(ModuleCases& c) {
  c["conv1d"] = layer<Conv1d>(
      ConvModuleOptions{.in_channels = 4, .out_channels = 6, .kernel_size = {3}, .padding = {1}, .groups = 2});
  c["conv1d_same"] = layer<Conv1d>(
      ConvModuleOptions{.in_channels = 2, .out_channels = 3, .kernel_size = {4}, .dilation = {2}, .same = true});
  c["conv2d"] = layer<Conv2d>(ConvModuleOptions{
      .in_channels = 3, .out_channels = 4, .kernel_size = {3, 2}, .stride = {2, 1}, .padding = {1, 0}});
  c["conv2d_reflect"] = layer<Conv2d>(ConvModuleOptions{
      .in_channels = 2, .out_channels = 3, .kernel_size = {3}, .padding = {1}, .padding_mode = PaddingMode::kReflect});
  c["conv3d"] =
      layer<Conv3d>(ConvModuleOptions{.in_channels = 2, .out_channels = 3, .kernel_size = {2}, .bias = false});
  c["conv_transpose2d"] = layer<ConvTranspose2d>(ConvTransposeOptions{.in_channels = 4,
                                                                      .out_channels = 6,
                                                                      .kernel_size = {3},
                                                                      .stride = {2},
                                                                      .padding = {1},
                                                                      .output_padding = {1},
                                                                      .groups = 2});
  c["max_pool1d"] = pool<MaxPool1d>(PoolOptions{.kernel = {3}, .stride = {2}, .padding = {1}});
  c["max_pool2d"] = pool<MaxPool2d>(PoolOptions{.kernel = {2}});
  c["max_pool3d"] = pool<MaxPool3d>(PoolOptions{.kernel = {2}});
  c["avg_pool1d"] = pool<AvgPool1d>(PoolOptions{.kernel = {3}, .stride = {1}, .padding = {1}, .counts_padding = false});
  c["avg_pool2d"] = pool<AvgPool2d>(PoolOptions{.kernel = {3, 2}, .stride = {2}});
  c["avg_pool3d"] = pool<AvgPool3d>(PoolOptions{.kernel = {2}, .stride = {1}});
  c["adaptive_avg_pool2d"] = pool<AdaptiveAvgPool2d>(int64_t{2}, int64_t{3});
  c["upsample_nearest"] = pool<Upsample>(InterpolateOptions{.scale_factor = {2}});
  c["upsample_bilinear"] =
      pool<Upsample>(InterpolateOptions{.mode = Interpolation::kBilinear, .size = {5, 4}, .align_corners = true});
}

void add_norms(ModuleCases& c) {
  c["batch_norm1d"] = layer<BatchNorm1d>(BatchNormOptions{.num_features = 3});
  c["batch_norm2d"] = layer<BatchNorm2d>(BatchNormOptions{.num_features = 3, .momentum = 0.3});
  c["batch_norm2d_eval"] = layer<BatchNorm2d>(BatchNormOptions{.num_features = 3});
  c["batch_norm2d_untracked"] =
      layer<BatchNorm2d>(BatchNormOptions{.num_features = 3, .affine = false, .track_running_stats = false});
  c["batch_norm2d_cumulative"] = [](const Factory& make) -> ModuleCase {
    const auto m = std::make_shared<BatchNorm2d>(make, BatchNormOptions{.num_features = 3, .momentum = {}});
    return {m, [m](const X& x) { return X{(*m)(x[0]), (*m)(x[0] * 2 + 1)}; }};
  };
  c["layer_norm"] = layer<LayerNorm>(LayerNormOptions{.normalized_shape = {3, 4}});
  c["layer_norm_plain"] = layer<LayerNorm>(LayerNormOptions{.normalized_shape = {5}, .elementwise_affine = false});
  c["group_norm"] = layer<GroupNorm>(GroupNormOptions{.num_groups = 2, .num_channels = 6});
  c["rms_norm"] = layer<RMSNorm>(RMSNormOptions{.normalized_shape = {6}, .eps = 1e-5});
}

void add_activations(ModuleCases& c) {
  c["relu"] = activation<ReLU>();
  c["relu6"] = activation<ReLU6>();
  c["leaky_relu"] = activation<LeakyReLU>(0.2);
  c["elu"] = activation<ELU>(0.7);
  c["celu"] = activation<CELU>(1.3);
  c["selu"] = activation<SELU>();
  c["gelu"] = activation<GELU>();
  c["gelu_tanh"] = activation<GELU>(true);
  c["silu"] = activation<SiLU>();
  c["mish"] = activation<Mish>();
  c["sigmoid"] = activation<Sigmoid>();
  c["tanh"] = activation<Tanh>();
  c["softplus"] = activation<Softplus>(2, 3);
  c["softsign"] = activation<Softsign>();
  c["log_sigmoid"] = activation<LogSigmoid>();
  c["hardtanh"] = activation<Hardtanh>(-1.1, 0.9);
  c["hardsigmoid"] = activation<Hardsigmoid>();
  c["hardswish"] = activation<Hardswish>();
  c["softmax"] = activation<Softmax>(1);
  c["log_softmax"] = activation<LogSoftmax>();
  c["glu"] = activation<GLU>(0);
  c["flatten"] = activation<Flatten>();
  c["prelu"] = [](const Factory& make) -> ModuleCase {
    const auto m = std::make_shared<PReLU>(make, 5);
    return {m, [m](const X& x) { return X{(*m)(x[0] + 0.03)}; }};
  };
}

void add_losses(ModuleCases& c) {
  c["mse_loss"] = loss<MSELoss>(same, same);
  c["l1_loss"] = loss<L1Loss>(moved, same, Reduce::kSum);
  c["smooth_l1_loss"] = loss<SmoothL1Loss>(moved, same, Reduce::kMean, 0.5);
  c["huber_loss"] = loss<HuberLoss>(moved, same, Reduce::kNone, 0.7);
  c["bce_loss"] = loss<BCELoss>(sigmoid_of, sigmoid_of);
  c["bce_with_logits"] = loss<BCEWithLogitsLoss>(same, sigmoid_of);
  c["bce_with_logits_weights"] = [](const Factory& make) -> ModuleCase {
    const Tensor ones = full(make.device, Shape{4}, 1, DType::f32);
    return loss<BCEWithLogitsLoss>(same, sigmoid_of, BceWithLogits{.weight = ones, .pos_weight = ones})(make);
  };
  c["kl_div"] = loss<KLDivLoss>([](const Tensor& x) { return log_softmax(x); },
                                [](const Tensor& x) { return softmax(x); }, Reduce::kSum);
  c["nll_loss"] = loss<NLLLoss>(same, same, Reduce::kMean, 1);
  c["cross_entropy"] = loss<CrossEntropyLoss>(same, same);
  c["cross_entropy_smoothed"] = [](const Factory& make) -> ModuleCase {
    const Tensor ones = full(make.device, Shape{4}, 1, DType::f32);
    return loss<CrossEntropyLoss>(same, same,
                                  CrossEntropy{.ignore_index = 1, .weight = ones, .label_smoothing = 0.2})(make);
  };
  c["cross_entropy_none"] =
      loss<CrossEntropyLoss>(same, same, CrossEntropy{.reduce = Reduce::kNone, .label_smoothing = 0.1});
}

}  // namespace

ModuleCases module_cases() {
  ModuleCases cases;
  add_layers(cases);
  add_images(cases);
  add_norms(cases);
  add_activations(cases);
  add_losses(cases);
  add_sequence_cases(cases);
  return cases;
}

}  // namespace gabbro::nn
