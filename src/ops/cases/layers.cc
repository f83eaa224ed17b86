// Normalizations and losses.
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

constexpr float kEpsilon = 1e-5f, kMomentum = 0.25f;  // of the fixtures
constexpr float kSmooth = 0.1f;                       // an epsilon for which finite differences are near

BatchNorm batch_norm_of(const Inputs& x) {
  return {.mean = x[1], .variance = x[2], .weight = optional(x, 3), .bias = optional(x, 4)};
}

Tensor trained(const Inputs& x, Tensor TrainedBatchNorm::*result) {
  return batch_norm_training(x[0], batch_norm_of(x), kMomentum).*result;
}

std::vector<Tensor> batch_norm_of_the_batch(const Inputs& x) {
  const Tensor old = cast(ints(Shape{2}, {1, 2}), DType::f32);
  const TrainedBatchNorm y = batch_norm_training(
      x[0], {.mean = old, .variance = old, .weight = x[1], .bias = x[2], .epsilon = kSmooth}, kMomentum);
  return {y.y, y.running_mean, y.running_variance};
}

GradientCase layer_norm_over(const Shape& last) {
  return {"layer_norm " + last.to_string(), &kLayerNorm, {{Shape{2, 3, 5}}, {last}, {last}}, one([](const Inputs& x) {
            return layer_norm(x[0], x[1], x[2], kSmooth);
          })};
}

Entry group_norm_nhwc_entry() {
  return {.name = "group_norm_nhwc",
          .call =
              [](const Inputs& x, const json& a) {
                return group_norm_nhwc(x[0], a.at("groups"), x[1], x[2], kEpsilon, a.value("silu", false));
              },
          .gradients = {{"group_norm_nhwc",
                         &kGroupNormNhwc,
                         {{Shape{2, 3, 2, 4}}, {Shape{4}}, {Shape{4}}},
                         one([](const Inputs& x) { return group_norm_nhwc(x[0], 2, x[1], x[2], kSmooth); })},
                        {"group_norm_nhwc with silu",
                         &kGroupNormNhwc,
                         {{Shape{2, 3, 6}}, {Shape{6}}, {Shape{6}}},
                         one([](const Inputs& x) { return group_norm_nhwc(x[0], 3, x[1], x[2], kSmooth, true); })}}};
}

void add_norms(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          {.name = "rms_norm",
           .call = [](const Inputs& x, const json& a) { return rms_norm(x[0], x[1], a.at("epsilon")); },
           .gradients = {{"rms_norm", &kRmsNorm, {{Shape{3, 7}}, {Shape{7}}}, one([](const Inputs& x) {
                            return rms_norm(x[0], x[1], kSmooth);
                          })}}},
          {.name = "layer_norm",
           .call = [](const Inputs& x,
                      const json&) { return layer_norm(x[0], optional(x, 1), optional(x, 2), kEpsilon); },
           .gradients = {layer_norm_over({5}),
                         layer_norm_over({3, 5}),
                         {"layer_norm without bias", &kLayerNorm, {{Shape{2, 5}}, {Shape{5}}}, one([](const Inputs& x) {
                            return layer_norm(x[0], x[1], {}, kSmooth);
                          })},
                         {"layer_norm without parameters", &kLayerNorm, {{Shape{2, 5}}}, one([](const Inputs& x) {
                            return layer_norm(x[0], {}, {}, kSmooth);
                          })}}},
          {.name = "group_norm",
           .call =
               [](const Inputs& x, const json& a) {
                 return group_norm(x[0], a.at("groups"), optional(x, 1), optional(x, 2), kEpsilon);
               },
           .gradients =
               {{"group_norm", &kGroupNorm, {{Shape{2, 4, 3, 1}}, {Shape{4}}, {Shape{4}}}, one([](const Inputs& x) {
                   return group_norm(x[0], 2, x[1], x[2], kSmooth);
                 })},
                {"group_norm without weight", &kGroupNorm, {{Shape{1, 6}}, {Shape{6}}}, one([](const Inputs& x) {
                   return group_norm(x[0], 3, {}, x[1], kSmooth);
                 })}}},
          group_norm_nhwc_entry(),
          {.name = "batch_norm",
           .call = [](const Inputs& x, const json&) { return batch_norm(x[0], batch_norm_of(x)); },
           .gradients = {{"batch_norm",
                          &kBatchNorm,
                          {{Shape{2, 3, 4}}, {Shape{3}}, {Shape{3}, 0.5, 2}, {Shape{3}}, {Shape{3}}},
                          one([](const Inputs& x) {
                            BatchNorm norm = batch_norm_of(x);
                            norm.epsilon = kSmooth;
                            return batch_norm(x[0], norm);
                          })},
                         {"batch_norm of the batch",
                          &kBatchNorm,
                          {{Shape{3, 2, 2}}, {Shape{2}}, {Shape{2}}},
                          batch_norm_of_the_batch}}},
          {.name = "batch_norm_training",
           .call = [](const Inputs& x, const json&) { return trained(x, &TrainedBatchNorm::y); }},
          {.name = "batch_norm_running_mean",
           .call = [](const Inputs& x, const json&) { return trained(x, &TrainedBatchNorm::running_mean); }},
          {.name = "batch_norm_running_variance",
           .call = [](const Inputs& x, const json&) { return trained(x, &TrainedBatchNorm::running_variance); }},
      });
}

void add_losses(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          {.name = "mse_loss", .call = [](const Inputs& x, const json& a) { return mse_loss(x[0], x[1], reduce(a)); }},
          {.name = "l1_loss", .call = [](const Inputs& x, const json& a) { return l1_loss(x[0], x[1], reduce(a)); }},
          {.name = "bce_loss",
           .call = [](const Inputs& x, const json& a) { return bce_loss(x[0], x[1], reduce(a)); },
           .gradients = {{"bce", &kBce, {{Shape{5, 3}, 0.1, 0.9}, {Shape{5, 3}, 0.1, 0.9}}, one([](const Inputs& x) {
                            return bce_loss(x[0], x[1], Reduce::kNone);
                          })}}},
          {.name = "kl_div", .call = [](const Inputs& x, const json& a) { return kl_div(x[0], x[1], reduce(a)); }},
          {.name = "nll_loss", .call = [](const Inputs& x, const json& a) { return nll_loss(x[0], x[1], reduce(a)); }},
          {.name = "cross_entropy",
           .call = [](const Inputs& x, const json& a) { return cross_entropy(x[0], x[1], reduce(a)); },
           .gradients = {{"cross_entropy", &kLabelLogProbability, {{Shape{4, 5}}}, one([](const Inputs& x) {
                            return cross_entropy(x[0], ints(Shape{4}, {4, 0, -100, 2}), Reduce::kNone);
                          })}}},
      });
}

}  // namespace

void add_layers(std::vector<Entry>& entries) {
  add_norms(entries);
  add_losses(entries);
}

}  // namespace gabbro::cases
