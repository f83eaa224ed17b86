// Normalization, images and attention.
#include "gabbro/ops/recurrent.h"
#include "src/base/half.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/window.h"
#include "tests/grad/op_cases.h"

namespace gabbro::grad {
namespace {

using Inputs = std::vector<Tensor>;

template <class F>
auto one(F f) {
  return [f](const Inputs& x) { return std::vector{f(x)}; };
}

void add_norms(std::vector<OpCase>& cases) {
  cases.push_back({"rms_norm", &kRmsNorm, {{Shape{3, 7}}, {Shape{7}}}, one([](const Inputs& x) {
                     return rms_norm(x[0], x[1], 0.1f);
                   })});
  for (const Shape& last : {Shape{5}, Shape{3, 5}}) {
    cases.push_back(
        {"layer_norm " + last.to_string(), &kLayerNorm, {{Shape{2, 3, 5}}, {last}, {last}}, one([](const Inputs& x) {
           return layer_norm(x[0], x[1], x[2], 0.1f);
         })});
  }
  cases.push_back({"layer_norm without bias", &kLayerNorm, {{Shape{2, 5}}, {Shape{5}}}, one([](const Inputs& x) {
                     return layer_norm(x[0], x[1], {}, 0.1f);
                   })});
  cases.push_back({"layer_norm without parameters", &kLayerNorm, {{Shape{2, 5}}}, one([](const Inputs& x) {
                     return layer_norm(x[0], {}, {}, 0.1f);
                   })});
  cases.push_back({"group_norm", &kGroupNorm, {{Shape{2, 4, 3, 1}}, {Shape{4}}, {Shape{4}}}, one([](const Inputs& x) {
                     return group_norm(x[0], 2, x[1], x[2], 0.1f);
                   })});
  cases.push_back({"group_norm without weight", &kGroupNorm, {{Shape{1, 6}}, {Shape{6}}}, one([](const Inputs& x) {
                     return group_norm(x[0], 3, {}, x[1], 0.1f);
                   })});
  cases.push_back({"batch_norm",
                   &kBatchNorm,
                   {{Shape{2, 3, 4}}, {Shape{3}}, {Shape{3}, 0.5, 2}, {Shape{3}}, {Shape{3}}},
                   one([](const Inputs& x) {
                     return batch_norm(x[0],
                                       {.mean = x[1], .variance = x[2], .weight = x[3], .bias = x[4], .epsilon = 0.1f});
                   })});
  cases.push_back(
      {"batch_norm of the batch", &kBatchNorm, {{Shape{3, 2, 2}}, {Shape{2}}, {Shape{2}}}, [](const Inputs& x) {
         const Tensor old = ints(Shape{2}, {1, 2});
         const TrainedBatchNorm y = batch_norm_training(x[0],
                                                        {.mean = cast(old, DType::f32),
                                                         .variance = cast(old, DType::f32),
                                                         .weight = x[1],
                                                         .bias = x[2],
                                                         .epsilon = 0.1f},
                                                        0.25f);
         return std::vector{y.y, y.running_mean, y.running_variance};
       }});
}

void add_convolutions(std::vector<OpCase>& cases) {
  const auto conv = [&](const std::string& name,
                        Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&), const Shape& x,
                        const Shape& w, const ConvOptions& options) {
    cases.push_back({name, &kConv, {{x, -1, 1}, {w, -1, 1}, {Shape{w[0]}}}, one([f, options](const Inputs& i) {
                       return f(i[0], i[1], i[2], options);
                     })});
  };
  conv("conv1d", conv1d, Shape{2, 3, 7}, Shape{2, 3, 3}, {.stride = {2}, .padding = {1}, .dilation = {2}});
  conv("conv1d of one group a channel", conv1d, Shape{2, 3, 6}, Shape{6, 1, 2}, {.groups = 3});
  conv("conv2d", conv2d, Shape{2, 2, 5, 4}, Shape{3, 2, 3, 2}, {});
  conv("conv2d with stride", conv2d, Shape{1, 2, 6, 5}, Shape{2, 2, 3, 3}, {.stride = {2, 3}, .padding = {2, 1}});
  conv("conv2d with groups", conv2d, Shape{2, 4, 5, 5}, Shape{6, 2, 2, 2},
       {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}, .groups = 2});
  conv("conv2d of single elements", conv2d, Shape{2, 3, 2, 2}, Shape{4, 3, 1, 1}, {.stride = {2}});
  conv("conv3d", conv3d, Shape{1, 2, 3, 4, 3}, Shape{2, 1, 2, 2, 2},
       {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2});
  const auto transposed = [&](const std::string& name, const Shape& x, const Shape& w, const ConvOptions& options,
                              const std::vector<int64_t>& more) {
    cases.push_back(
        {name, &kConvTranspose, {{x, -1, 1}, {w, -1, 1}, {Shape{w[1] * options.groups}}}, one([=](const Inputs& i) {
           return conv_transpose2d(i[0], i[1], i[2], options, more);
         })});
  };
  transposed("conv_transpose2d", Shape{2, 2, 3, 2}, Shape{2, 3, 2, 3}, {}, {0});
  transposed("conv_transpose2d with stride", Shape{1, 2, 3, 3}, Shape{2, 2, 3, 2},
             {.stride = {2, 3}, .padding = {1, 0}}, {1, 2});
  transposed("conv_transpose2d with groups", Shape{1, 4, 3, 3}, Shape{4, 1, 2, 2},
             {.stride = {2}, .dilation = {2}, .groups = 2}, {0});
  for (const int64_t groups : {1, 2}) {
    cases.push_back(
        {fmt::format("conv_weight_gradient of {} groups", groups),
         &kConvWeightGradient,
         {{Shape{2, 4, 1, 5, 4}, -1, 1}, {Shape{2, 6, 1, 3, 4}, -1, 1}},
         one([groups](const Inputs& x) {
           WindowAxes w{.kernel = {1, 3, 2}, .stride = {1, 2, 1}, .padding = {0, 1, 1}, .dilation = {1, 1, 2}};
           set_outputs("conv", x[0], x[0].shape(), w);
           Attributes attributes = window_attributes(w);
           attributes.set("groups", groups);
           return record(kConvWeightGradient, {x[0], x[1]}, attributes);
         })});
  }
  cases.push_back({"im2col", &kIm2col, {{Shape{2, 3, 5, 4}}}, one([](const Inputs& x) {
                     return im2col(x[0], {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}, 0.5);
                   })});
}

void add_pools(std::vector<OpCase>& cases) {
  const auto pool = [&](const std::string& name, Tensor (*f)(const Tensor&, const PoolOptions&), const Shape& x,
                        const PoolOptions& options) {
    cases.push_back({name, &kPool, {{x}}, one([f, options](const Inputs& i) { return f(i[0], options); })});
  };
  pool("max_pool1d", max_pool1d, Shape{2, 2, 7}, {.kernel = {3}, .stride = {2}, .padding = {1}});
  pool("max_pool2d", max_pool2d, Shape{1, 2, 5, 4}, {.kernel = {2, 2}});
  pool("max_pool2d with overlaps", max_pool2d, Shape{1, 1, 6, 5},
       {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}});
  cases.push_back({"max_pool_gradient", &kMaxPoolGradient, {{Shape{1, 1, 1, 2, 2}}}, one([](const Inputs& dy) {
                     const Tensor x = cast(ints(Shape{1, 1, 1, 3, 3}, {1, 5, 2, 5, 4, 7, 0, 6, 3}), DType::f32);
                     WindowAxes w{.kernel = {1, 2, 2}};
                     set_outputs("max_pool", x, x.shape(), w);
                     return record(kMaxPoolGradient, {x, dy[0]}, window_attributes(w));
                   })});
  pool("max_pool3d", max_pool3d, Shape{1, 1, 3, 3, 3}, {.kernel = {2}, .stride = {1}});
  pool("avg_pool1d", avg_pool1d, Shape{2, 2, 7}, {.kernel = {3}, .stride = {2}, .padding = {1}});
  pool("avg_pool2d", avg_pool2d, Shape{2, 2, 5, 4},
       {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .counts_padding = false});
  pool("avg_pool3d", avg_pool3d, Shape{1, 2, 3, 4, 3}, {.kernel = {2}, .dilation = {1, 2, 1}});
  cases.push_back({"adaptive_avg_pool2d", &kAdaptiveAvgPool2d, {{Shape{1, 2, 5, 4}}}, one([](const Inputs& x) {
                     return adaptive_avg_pool2d(x[0], 3, 2);
                   })});
  cases.push_back({"upsample_nearest2d", &kUpsample2d, {{Shape{1, 2, 3, 2}}}, one([](const Inputs& x) {
                     return upsample_nearest2d(x[0], 5, 4);
                   })});
  for (const bool aligned : {false, true}) {
    cases.push_back({"upsample_bilinear2d", &kUpsample2d, {{Shape{1, 2, 3, 2}}}, one([=](const Inputs& x) {
                       return upsample_bilinear2d(x[0], 5, 3, aligned);
                     })});
  }
}

void add_losses(std::vector<OpCase>& cases) {
  cases.push_back({"bce", &kBce, {{Shape{5, 3}, 0.1, 0.9}, {Shape{5, 3}, 0.1, 0.9}}, one([](const Inputs& x) {
                     return bce_loss(x[0], x[1], Reduce::kNone);
                   })});
  cases.push_back({"cross_entropy", &kLabelLogProbability, {{Shape{4, 5}}}, one([](const Inputs& x) {
                     return cross_entropy(x[0], ints(Shape{4}, {4, 0, -100, 2}), Reduce::kNone);
                   })});
}

void add_attention(std::vector<OpCase>& cases) {
  for (const bool interleaved : {false, true}) {
    cases.push_back(
        {interleaved ? "rope of neighbors" : "rope of half rotation",
         &kRope,
         {{Shape{3, 2, 8}}, {Shape{3}, 0.1, 1}},
         one([=](const Inputs& x) {
           return rope(x[0], ints(Shape{3}, {0, 2, 3}), x[1], {.interleaved = interleaved, .magnitude = 1.25f});
         })});
  }
  // Public calls record it of halves alone; its gradient is that of its composition, in any dtype.
  const auto dense = [](int64_t causal) {
    return one([causal](const Inputs& x) {
      return record(kDotProductAttention, x, {{"scale", 0.5}, {"causal", causal}});
    });
  };
  const Input q{Shape{1, 4, 3, 4}, -1, 1}, kv{Shape{1, 2, 5, 4}, -1, 1}, mask{Shape{1, 4, 1, 5}, -1, 1};
  cases.push_back({"scaled_dot_product_attention", &kDotProductAttention, {q, kv, kv}, dense(0)});
  cases.push_back({"scaled_dot_product_attention with a mask", &kDotProductAttention, {q, kv, kv, mask}, dense(1)});
  // The queries' gradient: the cache is a state, and its halves are constants.
  cases.push_back(
      {"attention", &kAttention, {{Shape{2, 4, 16}, -1, 1}}, one([](const Inputs& x) {
         std::vector<uint16_t> keys, values;
         for (int i = 0; i < 2 * 16 * 16; ++i) {
           keys.push_back(float_to_half_bits(static_cast<float>(i * 37 % 23 - 11) / 16));
           values.push_back(float_to_half_bits(static_cast<float>(i * 29 % 31 - 15) / 16));
         }
         const KvLayer cache{.keys = device()->upload(DType::f16, Shape{1, 2, 16, 16}, keys.data()),
                             .values = device()->upload(DType::f16, Shape{1, 2, 16, 16}, values.data())};
         const TokenPositions places{ints(Shape{2}, {5, 6}), ints(Shape{2}, {0, 0}), ints(Shape{1, 1}, {0})};
         return attention(x[0], cache, places, {.scale = 0.5f, .window = 4, .softcap = 3});
       })});
}

// Each cell, in both directions, of three steps.
void add_recurrent(std::vector<OpCase>& cases) {
  for (const RecurrentCell cell :
       {RecurrentCell::kTanh, RecurrentCell::kRelu, RecurrentCell::kLstm, RecurrentCell::kGru}) {
    for (const bool reversed : {false, true}) {
      const int64_t rows = 2 * recurrent_gates(cell);
      std::vector<Input> inputs = {{Shape{3, 2, rows}}, {Shape{rows, 2}}, {Shape{rows}}, {Shape{2, 2}}};
      if (cell == RecurrentCell::kLstm) inputs.push_back({Shape{2, 2}});
      if (cell == RecurrentCell::kRelu) inputs[1] = {Shape{rows, 2}, -0.2, 0.2};
      cases.push_back({fmt::format("recurrent {} {}", static_cast<int>(cell), reversed ? "reversed" : "forwards"),
                       &kRecurrent, inputs, [=](const Inputs& x) {
                         const bool has_cell = cell == RecurrentCell::kLstm;
                         // ReLU has a kink at 0, from which the sums are kept: half of them far above, half below.
                         Tensor gates = x[0];
                         if (cell == RecurrentCell::kRelu) gates = gates + iota(gates.device(), 2, DType::f32, -10, 20);
                         const RecurrentStates states = recurrent({.gates = gates,
                                                                   .weight = x[1],
                                                                   .bias = x[2],
                                                                   .h = x[3],
                                                                   .c = has_cell ? x[4] : Tensor(),
                                                                   .cell = cell,
                                                                   .reversed = reversed});
                         return has_cell ? std::vector{states.h, states.c} : std::vector{states.h};
                       }});
    }
  }
}

}  // namespace

void add_layer_cases(std::vector<OpCase>& cases) {
  add_norms(cases);
  add_convolutions(cases);
  add_pools(cases);
  add_losses(cases);
  add_attention(cases);
  add_recurrent(cases);
}

}  // namespace gabbro::grad
