// Convolutions, pooling and resizing.
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/window.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

using Conv = Tensor (*)(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options);
using Pool = Tensor (*)(const Tensor& x, const PoolOptions& options);

struct ConvCase {
  std::string name;
  Shape x, weight;
  ConvOptions options = {};
};

Entry conv_entry(const char* name, Conv f, const std::vector<ConvCase>& cases) {
  Entry e{.name = name,
          .call = [f](const Inputs& x, const json& a) { return f(x[0], x[1], optional(x, 2), conv_options(a)); }};
  for (const ConvCase& c : cases) {
    e.gradients.push_back({c.name,
                           &kConv,
                           {{c.x, -1, 1}, {c.weight, -1, 1}, {Shape{c.weight[0]}}},
                           one([f, options = c.options](const Inputs& x) { return f(x[0], x[1], x[2], options); })});
  }
  return e;
}

GradientCase transposed(const ConvCase& c, const std::vector<int64_t>& output_padding) {
  return {c.name,
          &kConvTranspose,
          {{c.x, -1, 1}, {c.weight, -1, 1}, {Shape{c.weight[1] * c.options.groups}}},
          one([options = c.options, output_padding](const Inputs& x) {
            return conv_transpose2d(x[0], x[1], x[2], options, output_padding);
          })};
}

GradientCase weight_gradient(int64_t groups) {
  return {fmt::format("conv_weight_gradient of {} groups", groups),
          &kConvWeightGradient,
          {{Shape{2, 4, 1, 5, 4}, -1, 1}, {Shape{2, 6, 1, 3, 4}, -1, 1}},
          one([groups](const Inputs& x) {
            WindowAxes w{.kernel = {1, 3, 2}, .stride = {1, 2, 1}, .padding = {0, 1, 1}, .dilation = {1, 1, 2}};
            set_outputs("conv", x[0], x[0].shape(), w);
            Attributes attributes = window_attributes(w);
            attributes.set("groups", groups);
            return record(kConvWeightGradient, {x[0], x[1]}, attributes);
          })};
}

Entry nhwc_entry() {
  Entry e{.name = "conv2d_nhwc", .call = [](const Inputs& x, const json& a) {
            const ConvOptions o = conv_options(a);
            return conv2d_nhwc(x[0], x[1], optional(x, 2),
                               {.stride = o.stride,
                                .padding = o.padding,
                                .dilation = o.dilation,
                                .shift = optional(x, 3),
                                .residual = optional(x, 4)});
          }};
  const ConvNhwcOptions odd{.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}};
  e.gradients = {
      {"conv2d_nhwc", &kConvNhwc, {{Shape{2, 5, 4, 3}, -1, 1}, {Shape{2, 3, 2, 3}, -1, 1}}, one([odd](const Inputs& x) {
         return conv2d_nhwc(x[0], x[1], {}, odd);
       })},
      {"conv2d_nhwc with additions",
       &kConvNhwc,
       {{Shape{2, 4, 3, 2}, -1, 1}, {Shape{3, 3, 3, 2}, -1, 1}, {Shape{3}}, {Shape{2, 3}}, {Shape{2, 4, 3, 3}}},
       one([](const Inputs& x) {
         return conv2d_nhwc(x[0], x[1], x[2], {.padding = {1}, .shift = x[3], .residual = x[4]});
       })}};
  return e;
}

void add_convolutions(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          conv_entry("conv1d", conv1d,
                     {{"conv1d", {2, 3, 7}, {2, 3, 3}, {.stride = {2}, .padding = {1}, .dilation = {2}}},
                      {"conv1d of one group a channel", {2, 3, 6}, {6, 1, 2}, {.groups = 3}}}),
          conv_entry("conv2d", conv2d,
                     {{"conv2d", {2, 2, 5, 4}, {3, 2, 3, 2}},
                      {"conv2d with stride", {1, 2, 6, 5}, {2, 2, 3, 3}, {.stride = {2, 3}, .padding = {2, 1}}},
                      {"conv2d with groups",
                       {2, 4, 5, 5},
                       {6, 2, 2, 2},
                       {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}, .groups = 2}},
                      {"conv2d of single elements", {2, 3, 2, 2}, {4, 3, 1, 1}, {.stride = {2}}}}),
          conv_entry(
              "conv3d", conv3d,
              {{"conv3d", {1, 2, 3, 4, 3}, {2, 1, 2, 2, 2}, {.stride = {1, 2, 1}, .padding = {1, 0, 1}, .groups = 2}}}),
          {.name = "conv_transpose2d",
           .call =
               [](const Inputs& x, const json& a) {
                 return conv_transpose2d(x[0], x[1], optional(x, 2), conv_options(a),
                                         numbers(a, "output_padding", {0}));
               },
           .gradients =
               {transposed({"conv_transpose2d", {2, 2, 3, 2}, {2, 3, 2, 3}}, {0}),
                transposed(
                    {"conv_transpose2d with stride", {1, 2, 3, 3}, {2, 2, 3, 2}, {.stride = {2, 3}, .padding = {1, 0}}},
                    {1, 2}),
                transposed({"conv_transpose2d with groups",
                            {1, 4, 3, 3},
                            {4, 1, 2, 2},
                            {.stride = {2}, .dilation = {2}, .groups = 2}},
                           {0})}},
          nhwc_entry(),
          {.name = "conv_weight_gradient", .gradients = {weight_gradient(1), weight_gradient(2)}},
          {.name = "im2col",
           .call = [](const Inputs& x,
                      const json& a) { return im2col(x[0], numbers(a, "kernel", {}), conv_options(a)); },
           .gradients = {{"im2col", &kIm2col, {{Shape{2, 3, 5, 4}}}, one([](const Inputs& x) {
                            return im2col(x[0], {3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}}, 0.5);
                          })}}},
      });
}

struct PoolCase {
  std::string name;
  Shape x;
  PoolOptions options;
};

Entry pool_entry(const char* name, Pool f, const std::vector<PoolCase>& cases) {
  Entry e{.name = name, .call = [f](const Inputs& x, const json& a) { return f(x[0], pool_options(a)); }};
  for (const PoolCase& c : cases) {
    e.gradients.push_back(
        {c.name, &kPool, {{c.x}}, one([f, options = c.options](const Inputs& x) { return f(x[0], options); })});
  }
  return e;
}

Tensor max_pool_gradient_of(const Inputs& dy) {
  const Tensor x = cast(ints(Shape{1, 1, 1, 3, 3}, {1, 5, 2, 5, 4, 7, 0, 6, 3}), DType::f32);
  WindowAxes w{.kernel = {1, 2, 2}};
  set_outputs("max_pool", x, x.shape(), w);
  return record(kMaxPoolGradient, {x, dy[0]}, window_attributes(w));
}

GradientCase bilinear_resize(bool aligned) {
  return {"upsample_bilinear2d", &kUpsample2d, {{Shape{1, 2, 3, 2}}}, one([aligned](const Inputs& x) {
            return upsample_bilinear2d(x[0], 5, 3, aligned);
          })};
}

void add_pools(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          pool_entry("max_pool1d", max_pool1d,
                     {{"max_pool1d", {2, 2, 7}, {.kernel = {3}, .stride = {2}, .padding = {1}}}}),
          pool_entry("max_pool2d", max_pool2d,
                     {{"max_pool2d", {1, 2, 5, 4}, {.kernel = {2, 2}}},
                      {"max_pool2d with overlaps",
                       {1, 1, 6, 5},
                       {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {1, 2}}}}),
          pool_entry("max_pool3d", max_pool3d, {{"max_pool3d", {1, 1, 3, 3, 3}, {.kernel = {2}, .stride = {1}}}}),
          pool_entry("avg_pool1d", avg_pool1d,
                     {{"avg_pool1d", {2, 2, 7}, {.kernel = {3}, .stride = {2}, .padding = {1}}}}),
          pool_entry("avg_pool2d", avg_pool2d,
                     {{"avg_pool2d",
                       {2, 2, 5, 4},
                       {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .counts_padding = false}}}),
          pool_entry("avg_pool3d", avg_pool3d,
                     {{"avg_pool3d", {1, 2, 3, 4, 3}, {.kernel = {2}, .dilation = {1, 2, 1}}}}),
          {.name = "max_pool_gradient",
           .gradients =
               {{"max_pool_gradient", &kMaxPoolGradient, {{Shape{1, 1, 1, 2, 2}}}, one(max_pool_gradient_of)}}},
          {.name = "adaptive_avg_pool2d",
           .call = [](const Inputs& x,
                      const json& a) { return adaptive_avg_pool2d(x[0], a.at("height"), a.at("width")); },
           .gradients = {{"adaptive_avg_pool2d", &kAdaptiveAvgPool2d, {{Shape{1, 2, 5, 4}}}, one([](const Inputs& x) {
                            return adaptive_avg_pool2d(x[0], 3, 2);
                          })}}},
          {.name = "upsample_nearest2d",
           .call = [](const Inputs& x,
                      const json& a) { return upsample_nearest2d(x[0], a.at("height"), a.at("width")); },
           .gradients = {{"upsample_nearest2d", &kUpsample2d, {{Shape{1, 2, 3, 2}}}, one([](const Inputs& x) {
                            return upsample_nearest2d(x[0], 5, 4);
                          })}}},
          {.name = "upsample_bilinear2d",
           .call =
               [](const Inputs& x, const json& a) {
                 return upsample_bilinear2d(x[0], a.at("height"), a.at("width"), a.at("align_corners"));
               },
           .gradients = {bilinear_resize(false), bilinear_resize(true)}},
      });
}

}  // namespace

void add_windows(std::vector<Entry>& entries) {
  add_convolutions(entries);
  add_pools(entries);
}

}  // namespace gabbro::cases
