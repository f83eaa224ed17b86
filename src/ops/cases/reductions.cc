// Reductions, softmax, sums along an axis and sorting.
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

using AlongRows = Tensor (*)(const Tensor& x);

GradientCase along(const Op& op, AlongRows f, const Input& x) {
  return {std::string(op.name) + " " + x.shape.to_string(), &op, {x}, one([f](const Inputs& i) { return f(i[0]); })};
}

// Three shapes, and other cases.
std::vector<GradientCase> along_rows(const Op& op, AlongRows f, std::vector<GradientCase> others = {}) {
  std::vector<GradientCase> cases;
  for (const Shape& shape : {Shape{3, 5}, Shape{7}, Shape{2, 2, 1}}) cases.push_back(along(op, f, {shape}));
  cases.insert(cases.end(), others.begin(), others.end());
  return cases;
}

// Cases with the attribute `axes`, and cases of the last axis, which stays.
bool has_axes(const json& a) { return a.contains("axes"); }
bool has_axis(const json& a) { return a.contains("axis"); }

}  // namespace

void add_reductions(std::vector<Entry>& entries) {
  const Shape three{3, 2, 5};
  entries.insert(
      entries.end(),
      {
          {.name = "sum",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axes(a) ? sum(x[0], axes(a), a.at("keepdims")) : sum(x[0], -1, kKeepDims);
               },
           .gradients = along_rows(kSum, [](const Tensor& x) { return sum(x, -1, kKeepDims); },
                                   {along(kSum,
                                          [](const Tensor& x) {
                                            return sum(x, {0, 2});
                                          },
                                          {three})})},
          {.name = "max",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axes(a) ? max(x[0], axes(a), a.at("keepdims")) : max(x[0], -1, kKeepDims);
               },
           .gradients = along_rows(kMax, [](const Tensor& x) { return max(x, -1, kKeepDims); },
                                   {along(kMax,
                                          [](const Tensor& x) {
                                            return max(x, {0, 2});
                                          },
                                          {three})})},
          {.name = "min",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axes(a) ? min(x[0], axes(a), a.at("keepdims")) : min(x[0], -1, kKeepDims);
               },
           .gradients = along_rows(kMin, [](const Tensor& x) { return min(x, -1, kKeepDims); })},
          {.name = "prod",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axes(a) ? prod(x[0], axes(a), a.at("keepdims")) : prod(x[0], -1, kKeepDims);
               },
           .gradients = along_rows(kProd, [](const Tensor& x) { return prod(x, -1, kKeepDims); },
                                   {along(kProd,
                                          [](const Tensor& x) {
                                            return prod(x, {0, 2});
                                          },
                                          {Shape{2, 3, 2}, 0.5, 2})})},
          {.name = "mean",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axes(a) ? mean(x[0], axes(a), a.at("keepdims")) : mean(x[0], -1, kKeepDims);
               },
           .gradients = along_rows(kSum, [](const Tensor& x) { return mean(x, -1, kKeepDims); },
                                   {along(kSum, [](const Tensor& x) { return mean(x, kAllAxes); }, {three})})},
          {.name = "any", .call = [](const Inputs& x, const json& a) { return any(x[0], axes(a), a.at("keepdims")); }},
          {.name = "all", .call = [](const Inputs& x, const json& a) { return all(x[0], axes(a), a.at("keepdims")); }},
          {.name = "logsumexp",
           .call = [](const Inputs& x, const json& a) { return logsumexp(x[0], axes(a), a.at("keepdims")); },
           .gradients = along_rows(kSum, [](const Tensor& x) { return logsumexp(x, 0); })},
          {.name = "var",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axes(a) ? var(x[0], axes(a), a.at("correction"), a.at("keepdims"))
                                    : var(x[0], -1, a.at("correction"), kKeepDims);
               },
           .gradients = {along(kMoments, [](const Tensor& x) { return var(x, -1); }, {Shape{3, 5}}),
                         along(kMoments,
                               [](const Tensor& x) {
                                 return var(x, {0, 2}, 0);
                               },
                               {three})}},
          {.name = "std",
           .call = [](const Inputs& x,
                      const json& a) { return std(x[0], axes(a), a.at("correction"), a.at("keepdims")); },
           .gradients = {along(kMoments,
                               [](const Tensor& x) {
                                 return gabbro::std(x, {0, 2});
                               },
                               {Shape{2, 3, 2, 5}})}},
          {.name = "moments",
           .gradients = {{"moments",
                          &kMoments,
                          {{Shape{2, 3, 5}}},
                          [](const Inputs& x) { return record_all(kMoments, {x[0]}); }}}},
          {.name = "batch_norm_sums",
           .gradients = {{"batch_norm_sums",
                          &kBatchNormSums,
                          {{Shape{2, 3, 4}}, {Shape{3}}, {Shape{2, 3, 4}}},
                          [](const Inputs& x) {
                            return record_all(kBatchNormSums, {x[0], x[1], x[2]});
                          }}}},
          {.name = "argmax",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axis(a) ? argmax(x[0], axis(a), a.at("keepdims")) : argmax(x[0], -1, kKeepDims);
               },
           .without_gradient = {{&kArgmax, "gives indices"}}},
          {.name = "argmin",
           .call =
               [](const Inputs& x, const json& a) {
                 return has_axis(a) ? argmin(x[0], axis(a), a.at("keepdims")) : argmin(x[0], -1, kKeepDims);
               },
           .without_gradient = {{&kArgmin, "gives indices"}}},
          {.name = "softmax",
           .call = [](const Inputs& x, const json& a) { return has_axis(a) ? softmax(x[0], *axis(a)) : softmax(x[0]); },
           .gradients = along_rows(kSoftmax, [](const Tensor& x) { return softmax(x); })},
          {.name = "log_softmax",
           .call = [](const Inputs& x,
                      const json& a) { return has_axis(a) ? log_softmax(x[0], *axis(a)) : log_softmax(x[0]); },
           .gradients = along_rows(kLogSoftmax, [](const Tensor& x) { return log_softmax(x, 0); })},
          {.name = "cumsum",
           .call = [](const Inputs& x, const json& a) { return cumsum(x[0], a.at("axis")); },
           .gradients = along_rows(kCumsum, [](const Tensor& x) { return cumsum(x, 0); })},
          {.name = "sort",
           .call = [](const Inputs& x, const json& a) { return sort(x[0], a.at("axis"), a.at("descending")); },
           .gradients = along_rows(kSort, [](const Tensor& x) { return sort(x, 0, true); })},
          {.name = "argsort",
           .call = [](const Inputs& x, const json& a) { return argsort(x[0], a.at("axis"), a.at("descending")); }},
          {.name = "topk",
           .call = [](const Inputs& x,
                      const json& a) { return topk(x[0], a.at("k"), a.at("axis"), a.at("largest")).values; },
           .gradients =
               along_rows(kTopk, [](const Tensor& x) { return topk(x, 1, -1, false).values; },
                          {along(kTopk, [](const Tensor& x) { return topk(x, 2, 0).values; }, {Shape{5, 3}})})},
          {.name = "sampling", .without_gradient = {{&kSampling, "gives ids"}}},
          {.name = "topk_indices",
           .call = [](const Inputs& x,
                      const json& a) { return topk(x[0], a.at("k"), a.at("axis"), a.at("largest")).indices; }},
      });
}

}  // namespace gabbro::cases
