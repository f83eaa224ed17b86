// Products of matrices and tensors.
#include "gabbro/ops/products.h"
#include "gabbro/ops/experts.h"
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

GradientCase product(const Shape& a, const Shape& b) {
  return {"matmul " + a.to_string() + b.to_string(), &kMatmul, {{a}, {b}}, one([](const Inputs& x) {
            return matmul(x[0], x[1]);
          })};
}

std::vector<GradientCase> linears() {
  std::vector<GradientCase> cases;
  for (const Shape& shape : {Shape{5}, Shape{3, 5}, Shape{2, 3, 5}}) {
    cases.push_back(
        {"linear " + shape.to_string(), &kLinear, {{shape}, {Shape{4, 5}}, {Shape{4}}}, one([](const Inputs& x) {
           return linear(x[0], x[1], x[2]);
         })});
  }
  return cases;
}

// Three experts; no token goes to the second.
GradientCase expert_gradient(const Shape& x) {
  return {"expert_linear " + x.to_string(), &kExpertLinear, {{x}, {Shape{6, 4}}}, one([](const Inputs& inputs) {
            return expert_linear(inputs[0], inputs[1], ints(Shape{3, 2}, {0, 2, 2, 0, 0, 2}), 3);
          })};
}

Tensor tensor_product(const Inputs& x, const json& a) {
  return a.contains("count") ? tensordot(x[0], x[1], a.at("count").get<int64_t>())
                             : tensordot(x[0], x[1], a.at("of_a").get<std::vector<int64_t>>(),
                                         a.at("of_b").get<std::vector<int64_t>>());
}

}  // namespace

void add_products(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          {.name = "matmul",
           .call = [](const Inputs& x, const json&) { return matmul(x[0], x[1]); },
           .gradients = {product({3, 5}, {5, 2}), product({2, 1, 3, 4}, {5, 4, 2}), product({2, 3, 4}, {4, 2}),
                         product({1, 1}, {1, 3})}},
          {.name = "matmul_transposed",
           .call =
               [](const Inputs& x, const json&) {
                 return matmul(x[0], permute(x[1], {1, 0}));
               }},
          {.name = "linear",
           .call = [](const Inputs& x, const json&) { return linear(x[0], x[1], optional(x, 2)); },
           .gradients = linears()},
          {.name = "expert_linear",
           .call = [](const Inputs& x, const json& a) { return expert_linear(x[0], x[1], x[2], a.at("experts")); },
           .gradients = {expert_gradient({3, 4}), expert_gradient({3, 2, 4})},
           .refusals = {{[] {
                           const Tensor x = refused_input(DType::f32), ids = refused_input(DType::i32, Shape{2, 1});
                           expert_linear(x, refused_input(DType::f32, Shape{7, 5}), ids, 3);
                         },
                         "[expert_linear] weight (7, 5) is not of 3 experts with rows each"},
                        {[] {
                           const Tensor x = refused_input(DType::f32), ids = refused_input(DType::i32, Shape{3, 1});
                           expert_linear(x, refused_input(DType::f32, Shape{6, 5}), ids, 3);
                         },
                         "[expert_linear] input (2, 5) does not fit ids (3, 1)"},
                        {[] {
                           const Tensor x = refused_input(DType::f32), ids = refused_input(DType::i32, Shape{2, 1});
                           expert_linear(x, refused_input(DType::f32, Shape{6, 4}), ids, 3);
                         },
                         "[expert_linear] input (2, 5) does not fit weight (6, 4)"}}},
          {.name = "embedding",
           .call = [](const Inputs& x, const json&) { return embedding(x[0], x[1]); },
           .gradients = {{"embedding", &kEmbedding, {{Shape{4, 3}}}, one([](const Inputs& x) {
                            return embedding(x[0], ints(Shape{3}, {3, 0, 3}));
                          })}}},
          {.name = "dequantize", .without_gradient = {{&kDequantize, "of quantized weights"}}},
          {.name = "outer", .call = [](const Inputs& x, const json&) { return outer(x[0], x[1]); }},
          {.name = "dot", .call = [](const Inputs& x, const json&) { return dot(x[0], x[1]); }},
          {.name = "vecdot", .call = [](const Inputs& x, const json& a) { return vecdot(x[0], x[1], a.at("axis")); }},
          {.name = "tensordot", .call = tensor_product},
          {.name = "bilinear",
           .call = [](const Inputs& x, const json&) { return bilinear(x[0], x[1], x[2], optional(x, 3)); }},
          {.name = "einsum",
           .call = [](const Inputs& x, const json& a) { return einsum(a.at("equation").get<std::string>(), x); }},
      });
}

}  // namespace gabbro::cases
