// Attention, recurrent layers and random numbers.
#include "gabbro/graph/eval.h"
#include "gabbro/ops/recurrent.h"
#include "src/base/half.h"
#include "src/ops/cases/attention.h"
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

GradientCase rope_case(bool interleaved) {
  return {interleaved ? "rope of neighbors" : "rope of half rotation",
          &kRope,
          {{Shape{3, 2, 8}}, {Shape{3}, 0.1, 1}},
          one([=](const Inputs& x) {
            return rope(x[0], ints(Shape{3}, {0, 2, 3}), x[1], {.interleaved = interleaved, .magnitude = 1.25f});
          })};
}

// A function of the queries: the cache is a state, and its f16 numbers are constants.
Tensor attention_over_constants(const Inputs& x) {
  std::vector<uint16_t> keys, values;
  for (int i = 0; i < 2 * 16 * 16; ++i) {
    keys.push_back(float_to_half_bits(static_cast<float>(i * 37 % 23 - 11) / 16));
    values.push_back(float_to_half_bits(static_cast<float>(i * 29 % 31 - 15) / 16));
  }
  const KvLayer cache{.keys = device()->upload(DType::f16, Shape{1, 2, 16, 16}, keys.data()),
                      .values = device()->upload(DType::f16, Shape{1, 2, 16, 16}, values.data())};
  const TokenPositions places{ints(Shape{2}, {5, 6}), ints(Shape{2}, {0, 0}), ints(Shape{1, 1}, {0}), {}};
  return attention(x[0], cache, places, {.scale = 0.5f, .window = 4, .softcap = 3});
}

Tensor latent_attention_over_constants(const Inputs& x) {
  std::vector<uint16_t> latents;
  for (int i = 0; i < 16 * 16; ++i) latents.push_back(float_to_half_bits(static_cast<float>(i * 37 % 23 - 11) / 16));
  const LatentLayer cache{.latents = device()->upload(DType::f16, Shape{1, 1, 16, 16}, latents.data()), .scales = {}};
  const TokenPositions places{ints(Shape{2}, {5, 6}), ints(Shape{2}, {0, 0}), ints(Shape{1, 1}, {0}), {}};
  return latent_attention(x[0], cache, places, {.scale = 0.5f, .values = 10});
}

// Public calls record the op for f16 and bf16 alone; its gradient is that of its composition, in any dtype.
std::vector<GradientCase> dense_attention() {
  const auto dense = [](int64_t causal) {
    return one([causal](const Inputs& x) {
      return record(kDotProductAttention, x, {{"scale", 0.5}, {"causal", causal}});
    });
  };
  const Input q{Shape{1, 4, 3, 4}, -1, 1}, kv{Shape{1, 2, 5, 4}, -1, 1}, mask{Shape{1, 4, 1, 5}, -1, 1};
  return {{"scaled_dot_product_attention", &kDotProductAttention, {q, kv, kv}, dense(0)},
          {"scaled_dot_product_attention with a mask", &kDotProductAttention, {q, kv, kv, mask}, dense(1)}};
}

Tensor attended(const Inputs& x, const json& a) {
  DotProductAttention options{.mask = optional(x, 3), .causal = a.value("causal", false)};
  if (a.contains("scale")) options.scale = a.at("scale");
  return scaled_dot_product_attention(x[0], x[1], x[2], options);
}

GradientCase recurrent_case(RecurrentCell cell, bool reversed) {
  const int64_t rows = 2 * recurrent_gates(cell);
  std::vector<Input> inputs = {{Shape{3, 2, rows}}, {Shape{rows, 2}}, {Shape{rows}}, {Shape{2, 2}}};
  if (cell == RecurrentCell::kLstm) inputs.push_back({Shape{2, 2}});
  if (cell == RecurrentCell::kRelu) inputs[1] = {Shape{rows, 2}, -0.2, 0.2};
  return {fmt::format("recurrent {} {}", static_cast<int>(cell), reversed ? "reversed" : "forwards"), &kRecurrent,
          inputs, [=](const Inputs& x) {
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
          }};
}

// Each cell, in both directions, of three steps.
std::vector<GradientCase> recurrent_cases() {
  std::vector<GradientCase> cases;
  for (const RecurrentCell cell :
       {RecurrentCell::kTanh, RecurrentCell::kRelu, RecurrentCell::kLstm, RecurrentCell::kGru}) {
    for (const bool reversed : {false, true}) cases.push_back(recurrent_case(cell, reversed));
  }
  return cases;
}

// The bits of f32 numbers, so that fixtures can ask for exactly these.
Tensor as_bits(const Tensor& x) {
  const std::vector<float> values = to_host<float>(x);
  return x.device()->upload(DType::i32, x.shape(), values.data());
}

Tensor key_of(const json& a) {
  const auto words = [&](const char* name) {
    return a.at(name)[0].get<uint64_t>() | a.at(name)[1].get<uint64_t>() << 32;
  };
  return random_key(device(), words("seed"), words("offset"), words("stream"));
}

}  // namespace

void add_sequences(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          {.name = "rope",
           .call =
               [](const Inputs& x, const json& a) {
                 return rope(x[0], x[1], x[2], {.interleaved = a.at("interleaved"), .magnitude = a.at("magnitude")});
               },
           .gradients = {rope_case(false), rope_case(true)}},
          {.name = "scaled_dot_product_attention", .call = attended, .gradients = dense_attention()},
          {.name = "attention",
           .call = [](const Inputs& x, const json& a) { return cached_attention(x, a, DType::f16); },
           .gradients = {{"attention", &kAttention, {{Shape{2, 4, 16}, -1, 1}}, one(attention_over_constants)}}},
          {.name = "recurrent", .gradients = recurrent_cases()},
          {.name = "recurrent_gradient",
           .without_gradient = {{&kRecurrentGradient, "recurrent has gradients of higher order by its composition"}}},
          {.name = "latent_attention",
           .gradients = {{"latent_attention",
                          &kLatentAttention,
                          {{Shape{2, 4, 16}, -1, 1}},
                          one(latent_attention_over_constants)}}},
          {.name = "causal_conv", .without_gradient = {{&kCausalConv, "writes a state in place"}}},
          {.name = "selective_scan", .without_gradient = {{&kSelectiveScan, "writes a state in place"}}},
          {.name = "gated_delta_rule", .without_gradient = {{&kGatedDeltaRule, "writes a state in place"}}},
          {.name = "kv_write", .without_gradient = {{&kKvWrite, "writes a state in place"}}},
          {.name = "random", .without_gradient = {{&kRandom, "of a key"}}},
          {.name = "random_bits",
           .call = [](const Inputs&, const json& a) { return random_bits(key_of(a), shape(a)); }},
          {.name = "rand_as_bits",
           .call = [](const Inputs&, const json& a) { return as_bits(rand(key_of(a), shape(a))); }},
          {.name = "randn_as_bits",
           .call = [](const Inputs&, const json& a) { return as_bits(randn(key_of(a), shape(a))); }},
          {.name = "randn", .call = [](const Inputs&, const json& a) { return randn(key_of(a), shape(a)); }},
          {.name = "randint",
           .call = [](const Inputs&,
                      const json& a) { return randint(key_of(a), a.at("low"), a.at("high"), shape(a)); }},
      });
}

}  // namespace gabbro::cases
