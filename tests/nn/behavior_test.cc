// Behavior of modules beyond their formulas: state dicts, modes, initial values, dropout, quantized weights, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "gabbro/nn/activation.h"
#include "gabbro/nn/checkpoint.h"
#include "gabbro/nn/conv.h"
#include "gabbro/nn/dropout.h"
#include "gabbro/nn/embedding.h"
#include "gabbro/nn/init.h"
#include "gabbro/nn/linear.h"
#include "gabbro/nn/norm.h"
#include "gabbro/nn/state_file.h"
#include "gabbro/nn/transformer.h"
#include "gabbro/ops/products.h"
#include "src/base/error.h"
#include "src/plan/eval.h"
#include "tests/nn/fixtures.h"

namespace gabbro::nn {
namespace {

using testing::HasSubstr;

std::vector<float> host(const Tensor& x) { return to_host<float>(cast(x, DType::f32)); }

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

std::shared_ptr<Linear> dense(int64_t in, int64_t out, DType dtype = DType::f32) {
  return std::make_shared<Linear>(Factory{.device = device(), .dtype = dtype},
                                  LinearOptions{.in_features = in, .out_features = out});
}

// An equal gap below and above: mean and deviation of many numbers.
struct Moments {
  double mean = 0, deviation = 0, least = HUGE_VAL, most = -HUGE_VAL;
};
Moments moments(const Tensor& x) {
  Moments m;
  const std::vector<float> values = host(x);
  for (const double value : values) {
    m.mean += value;
    m.deviation += value * value;
    m.least = std::min(m.least, value);
    m.most = std::max(m.most, value);
  }
  m.mean /= static_cast<double>(values.size());
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()) - m.mean * m.mean);
  return m;
}

TEST(Initializers, HaveTheMomentsOfTheirFormulas) {
  const Factory make{.device = device()};
  const Shape shape{96, 64};  // 6144 numbers: the mean's deviation is 1/√6144; five times it is 0.064
  const auto expect = [&](const Tensor& x, double mean, double deviation) {
    const Moments m = moments(x);
    EXPECT_NEAR(m.mean, mean, 0.064 * deviation);
    EXPECT_NEAR(m.deviation, deviation, 0.064 * deviation);
  };
  expect(init::uniform(make, shape, -1, 3), 1, 4 / std::sqrt(12));
  expect(init::normal(make, shape, 2, 0.5), 2, 0.5);
  expect(init::xavier_uniform(make, shape), 0, std::sqrt(2.0 / 160));
  expect(init::xavier_normal(make, shape, 2), 0, 2 * std::sqrt(2.0 / 160));
  expect(init::kaiming_uniform(make, shape), 0, std::sqrt(2.0 / 64));
  expect(init::kaiming_normal(make, shape, 1, init::Fan::kOut), 0, std::sqrt(1.0 / 96));
  expect(init::kaiming_uniform(make, Shape{96, 16, 2, 2}, std::sqrt(5)), 0, std::sqrt(1.0 / 3 / 64));
  // A normal distribution cut off at one deviation keeps 0.5396 of its deviation.
  const Tensor cut = init::trunc_normal(make, shape, {.mean = 1, .deviation = 2, .low = -1, .high = 3});
  expect(cut, 1, 2 * 0.5396);
  EXPECT_GE(moments(cut).least, -1);
  EXPECT_LE(moments(cut).most, 3);
}

TEST(Initializers, OrthogonalMatricesAreThat) {
  const Factory make{.device = device()};
  for (const Shape& shape : {Shape{5, 9}, Shape{9, 5}, Shape{7, 7}}) {
    const Tensor q = init::orthogonal(make, shape, 2);
    const Tensor product = shape[0] <= shape[1] ? matmul(q, permute(q, {1, 0})) : matmul(permute(q, {1, 0}), q);
    const std::vector<float> found = host(product);
    const auto n = static_cast<size_t>(std::min(shape[0], shape[1]));
    for (size_t i = 0; i < n * n; ++i) EXPECT_NEAR(found[i], i % (n + 1) == 0 ? 4 : 0, 64 * 0x1p-24) << i;
  }
}

TEST(Initializers, AreFunctionsOfTheSeed) {
  const auto make = [](uint64_t seed) {
    return host(Linear({.device = device(), .generator = std::make_shared<Generator>(seed)},
                       {.in_features = 4, .out_features = 3})
                    .weight);
  };
  EXPECT_EQ(make(1), make(1));
  EXPECT_NE(make(1), make(2));
  const Factory one{.device = device()};
  EXPECT_NE(host(init::uniform(one, Shape{8})), host(init::uniform(one, Shape{8})));
}

TEST(Linear, IsInitializedAsInPyTorch) {
  const Moments m = moments(dense(100, 60)->weight);
  EXPECT_LE(m.most, 0.1);
  EXPECT_NEAR(m.deviation, 0.1 / std::sqrt(3), 0.004);
}

TEST(Module, NamesWhatDoesNotFitInAStateDict) {
  const auto model = std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{dense(3, 2), dense(2, 2)});
  StateDict state = model->state_dict();
  const std::vector<float> before = host(state[0].tensor);
  state[1].name = "1.scale";
  state[2].tensor = numbers(Shape{2, 3}, 0, 1);
  EXPECT_EQ(
      error_of([&] { model->load_state_dict(state); }),
      "[load_state_dict] missing 0.bias; unexpected 1.scale; of another shape: 1.weight (2, 3) instead of (2, 2)");
  EXPECT_THAT(error_of([&] { model->load_state_dict(state, false); }), HasSubstr("1.weight (2, 3)"));
  state[2].name = "elsewhere";
  state[0].tensor = numbers(Shape{2, 3}, 1, 1);
  model->load_state_dict(state, false);
  EXPECT_EQ(host(model->state_dict()[0].tensor), host(numbers(Shape{2, 3}, 1, 1)));
  EXPECT_NE(before, host(model->state_dict()[0].tensor));
}

TEST(Module, LoadsValuesAndSharesNothingElse) {
  const auto a = dense(3, 2), b = dense(3, 2);
  b->load_state_dict(a->state_dict());
  EXPECT_EQ(host(a->weight), host(b->weight));
  backward(sum((*a)(numbers(Shape{4, 3}, 1, 1)), kAllAxes));
  EXPECT_TRUE(gradient_of(a->weight).defined());
  EXPECT_FALSE(gradient_of(b->weight).defined());
  EXPECT_FALSE(needs_gradient(a->state_dict()[0].tensor));
  a->zero_grad();
  EXPECT_FALSE(gradient_of(a->weight).defined());
}

TEST(Module, PlacesKeepTheModuleAndAreThereOnce) {
  std::vector<Slot> slots;
  {
    const auto shared = dense(2, 2);
    slots = std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{shared, shared})->parameters();
  }
  ASSERT_EQ(slots.size(), 2U);
  EXPECT_EQ(slots[1].name, "0.bias");
  EXPECT_EQ(host(*slots[0].tensor).size(), 4U);
}

TEST(Module, NamesAreTakenOnce) {
  struct Twice : Module {
    Twice() {
      add_buffer("a", init::zeros({.device = device()}, Shape{1}));
      add_buffer("a", init::zeros({.device = device()}, Shape{1}));
    }
  };
  EXPECT_EQ(error_of([] { Twice(); }), "[module] 'a' cannot be the name of a tensor or module: it is taken");
}

TEST(Module, ModesReachAllModulesInside) {
  const Factory make{.device = device()};
  const auto inner = std::make_shared<Dropout>(make, 0.5);
  const auto outer = std::make_shared<Sequential>(
      std::vector<std::shared_ptr<Layer>>{std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{inner})});
  const Tensor x = init::ones(make, Shape{64});
  EXPECT_NE(host((*outer)(x)), host(x));
  outer->train(false);
  EXPECT_FALSE(inner->is_training());
  EXPECT_EQ(host((*outer)(x)), host(x));
}

TEST(Module, FrozenParametersHaveNoGradient) {
  const auto layer = dense(3, 2);
  layer->requires_grad(false);
  EXPECT_FALSE(needs_gradient((*layer)(numbers(Shape{1, 3}, 1, 1))));
  layer->requires_grad(true);
  EXPECT_TRUE(needs_gradient((*layer)(numbers(Shape{1, 3}, 1, 1))));
}

TEST(Module, ComputesInTheDTypeOfItsParameters) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto layer = dense(3, 2);
    const Tensor x = numbers(Shape{4, 3}, 1, 1.0 / 8), expected = (*layer)(x);
    layer->to_dtype(dtype);
    const Tensor y = (*layer)(cast(x, dtype));
    EXPECT_EQ(y.dtype(), dtype);
    EXPECT_TRUE(needs_gradient(layer->weight));
    const std::vector<float> a = host(y), e = host(expected);
    // Weights, of at most 1, and the result are rounded; three products of numbers up to 2.
    const double unit = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], e[i], 8 * unit);
  }
  EXPECT_EQ(error_of([] { dense(1, 1)->to_dtype(DType::i32); }), "[to_dtype] parameters cannot be i32");
}

TEST(Dropout, KeepsTheMeanAndDiffersEachTime) {
  const Factory make{.device = device()};
  const auto drop = std::make_shared<Dropout>(make, 0.25);
  const Tensor x = init::ones(make, Shape{4096});
  const std::vector<float> first = host((*drop)(x)), second = host((*drop)(x));
  EXPECT_NE(first, second);
  const auto zeros = static_cast<double>(std::ranges::count(first, 0.0F));
  EXPECT_NEAR(zeros / 4096, 0.25, 5 * std::sqrt(0.25 * 0.75 / 4096));  // five deviations
  for (const float value : first) EXPECT_TRUE(value == 0 || std::fabs(value - 4.0F / 3) < 1e-6F);
  const auto channels = std::make_shared<Dropout2d>(make, 0.5);
  const std::vector<float> whole = host((*channels)(init::ones(make, Shape{4, 8, 3, 3})));
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i], whole[i / 9 * 9]);
  EXPECT_EQ(error_of([&] { Dropout(make, 1.5); }), "[dropout] a probability of 1.5");
}

TEST(Dropout, IsTheSameWhenACheckpointIsComputedAgain) {
  const auto generator = std::make_shared<Generator>(7);
  const Factory make{.device = device(), .generator = generator};
  const auto drop = std::make_shared<Dropout>(make, 0.5);
  const auto f = [&](std::span<const Tensor> in) { return std::vector{(*drop)(in[0] * in[0])}; };
  const Tensor x = numbers(Shape{64}, 3, 1);
  require_gradient(x);
  const Tensor y = checkpoint(f, std::span(&x, 1), generator)[0];
  const Tensor dx = gradients(sum(y, kAllAxes), std::span(&x, 1))[0];
  eval(std::vector{y, dx});
  const std::vector<float> value = host(y), slope = host(dx), in = host(x);
  for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(slope[i], value[i] == 0 ? 0 : 4 * in[i]) << i;
}

TEST(BatchNorm, RefusesOtherShapes) {
  const auto norm = std::make_shared<BatchNorm2d>(Factory{.device = device()}, BatchNormOptions{.num_features = 3});
  EXPECT_EQ(error_of([&] {
              norm->forward(numbers(Shape{2, 3}, 1, 1));
            }),
            "[batch_norm] x (2, 3) where 3 channels in 4 axes are wanted");
}

TEST(RMSNorm, HasNoWeightWhereNoneIsAskedFor) {
  const RMSNormOptions options{.normalized_shape = {2, 2}, .eps = 0.0, .elementwise_affine = false};
  const auto norm = std::make_shared<RMSNorm>(Factory{.device = device()}, options);
  EXPECT_TRUE(norm->tensors().empty());
  const float values[] = {1, -7, 5, 5};  // their mean square is 25
  const std::vector<float> y = host((*norm)(device()->upload(DType::f32, Shape{1, 2, 2}, values)));
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], values[i] / 5, 4 * 0x1p-24 * 7);
}

TEST(Embedding, ItsPaddingBeginsAtZero) {
  const Embedding table({.device = device()}, {.num_embeddings = 3, .embedding_dim = 2, .padding_idx = 1});
  const std::vector<float> values = host(table.weight);
  EXPECT_EQ(values[2], 0);
  EXPECT_EQ(values[3], 0);
  EXPECT_NE(values[4], 0);
}

TEST(MultiheadAttention, DropsWeightsInTraining) {
  const auto attention = std::make_shared<MultiheadAttention>(
      Factory{.device = device()}, MultiheadAttentionOptions{.embed_dim = 8, .num_heads = 2, .dropout = 0.5});
  const Tensor x = numbers(Shape{5, 2, 8}, 1, 1.0 / 8);
  const auto weights = [&] { return host((*attention)(x, x, x, {}, MultiheadAttention::Weights::kHeads).weights); };
  EXPECT_GT(std::ranges::count(weights(), 0.0F), 0);
  attention->train(false);
  EXPECT_EQ(std::ranges::count(weights(), 0.0F), 0);
}

TEST(Linear, InABlockFormatIsTheLayerOfItsRoundedWeight) {
  const auto layer = dense(64, 5);
  const auto quantized = std::make_shared<Linear>(*layer, DType::q8_0);
  const Tensor x = numbers(Shape{3, 64}, 1, 1.0 / 8);
  require_gradient(x);
  const std::vector<float> y = host((*quantized)(x)), expected = host((*layer)(x));
  // Weights up to 1/8 are rounded by 1/256 of that; the backends round x to some 1/8192 of 1.75. 64 products of 1.75.
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 64 * 1.75 / 8 * (1.0 / 256 + 1.0 / 4096));
  EXPECT_TRUE(needs_gradient((*quantized)(x)));
  EXPECT_TRUE(quantized->parameters().empty());
  const auto other = std::make_shared<Linear>(
      Factory{.device = device()}, LinearOptions{.in_features = 64, .out_features = 5, .format = DType::q8_0});
  EXPECT_NE(host((*other)(x)), y);
  other->load_state_dict(quantized->state_dict());
  EXPECT_EQ(host((*other)(x)), y);
  EXPECT_THAT(error_of([&] { Linear(*dense(33, 2), DType::q8_0); }),
              HasSubstr("row length 33 is not a multiple of q8_0"));
  EXPECT_THAT(error_of([&] { Linear(*dense(256, 2), DType::f16); }), HasSubstr("f16 is not a block format"));
  EXPECT_THAT(error_of([&] { Linear(*quantized, DType::q8_0); }), HasSubstr("the weight is in q8_0 already"));
}

TEST(Linear, AddsAdaptersAndTakesColumnsInAnotherOrder) {
  const auto layer = dense(3, 2);
  const Tensor x = numbers(Shape{4, 3}, 1, 1.0 / 8);
  const auto loaded = std::make_shared<Linear>(layer->weight, layer->bias);
  EXPECT_TRUE(loaded->state_dict().empty());
  EXPECT_EQ(host((*loaded)(x)), host((*layer)(x)));
  const int32_t order[] = {2, 0, 1};
  loaded->order = device()->upload(DType::i32, Shape{3}, order);
  const Tensor moved = take(x, loaded->order, -1);
  EXPECT_EQ(host((*loaded)(x)), host((*layer)(moved)));
  const auto scale = std::make_shared<float>(0.0F);
  const Tensor a = numbers(Shape{1, 3}, 1, 1.0 / 8), b = numbers(Shape{2, 1}, 2, 1.0 / 8);
  loaded->adapters.push_back({.a = a, .b = b, .scale = scale});
  EXPECT_EQ(host((*loaded)(x)), host((*layer)(moved)));
  *scale = 0.5F;
  int seen = 0;
  loaded->observe = [&](const Tensor& input) { seen += static_cast<int>(input.shape()[0]); };
  const std::vector<float> y = host((*loaded)(x)), plain = host((*layer)(moved)), xs = host(x), as = host(a),
                           bs = host(b);
  for (size_t t = 0; t < 4; ++t) {
    const float inner = 0.5F * (xs[3 * t] * as[0] + xs[3 * t + 1] * as[1] + xs[3 * t + 2] * as[2]);
    for (size_t n = 0; n < 2; ++n) EXPECT_NEAR(y[2 * t + n], plain[2 * t + n] + inner * bs[n], 1e-6);
  }
  EXPECT_EQ(seen, 4);
}

std::shared_ptr<Sequential> small_model() {
  const Factory make{.device = device()};
  return std::make_shared<Sequential>(std::vector<std::shared_ptr<Layer>>{
      std::make_shared<Conv1d>(make, ConvModuleOptions{.in_channels = 2, .out_channels = 3, .kernel_size = {3}}),
      std::make_shared<BatchNorm1d>(make, BatchNormOptions{.num_features = 3}), std::make_shared<Flatten>(),
      dense(6, 2)});
}

// No plan is made for them. Plans of uniform() and iota() would be new: no other test has these shapes.
TEST(InitialValues, AreNotComputedWhereTheyAreReplaced) {
  const Tensor weight = full(device(), Shape{1013, 7}, 2, DType::f32),
               bias = full(device(), Shape{1013}, 3, DType::f32);
  eval(std::vector<Tensor>{weight, bias});
  const size_t before = plans_made(*device());
  const std::shared_ptr<Linear> layer = dense(7, 1013);
  layer->load_state_dict({{"weight", weight}, {"bias", bias}});
  EXPECT_EQ(plans_made(*device()), before);
  EXPECT_EQ(layer->weight.state().storage, weight.state().storage);
}

TEST(InitialValues, DoNotDependOnWhenTheyAreRead) {
  std::vector<std::vector<float>> values;
  for (const bool backwards : {false, true}) {
    const Factory make{.device = device(), .generator = std::make_shared<Generator>(7)};
    const LinearOptions options{.in_features = 5, .out_features = 3};
    const Linear first(make, options), second(make, options);
    const Tensor x = full(device(), Shape{2, 5}, 1, DType::f32);
    for (const Linear* layer : {backwards ? &second : &first, backwards ? &first : &second})
      values.push_back(host(linear(x, layer->weight, layer->bias)));
  }
  EXPECT_EQ(values[0], values[3]);
  EXPECT_EQ(values[1], values[2]);
}

TEST(Conv, CircularPaddingTakesTheOtherEnd) {
  const Factory make{.device = device()};
  Conv1d wrapped(make, ConvModuleOptions{.in_channels = 1,
                                         .out_channels = 1,
                                         .kernel_size = {3},
                                         .padding = {1},
                                         .bias = false,
                                         .padding_mode = PaddingMode::kCircular});
  const std::vector<float> kernel{1, 10, 100}, values{1, 2, 3, 4};
  wrapped.weight = device()->upload(DType::f32, Shape{1, 1, 3}, kernel.data());
  const Tensor x = device()->upload(DType::f32, Shape{1, 1, 4}, values.data());
  EXPECT_EQ(host(wrapped(x)), (std::vector<float>{214, 321, 432, 143}));
  Conv1d wide(make, ConvModuleOptions{.in_channels = 1,
                                      .out_channels = 1,
                                      .kernel_size = {3},
                                      .padding = {5},
                                      .padding_mode = PaddingMode::kCircular});
  EXPECT_EQ(error_of([&] { wide(x); }), "[conv] circular padding by 5 is longer than the axis, 4");
}

TEST(StateFiles, OfPyTorchAreLoaded) {
  const std::string path = GABBRO_SOURCE_DIR "/tests/data/nn/model.safetensors";
  const StateDict state = load_state(path, device());
  const auto tensor = [&](const std::string& name) {
    return std::ranges::find(state, name, &NamedTensor::name)->tensor;
  };
  const auto model = small_model();
  model->train(false);
  load(path, *model, false);
  const std::vector<float> y = host((*model)(tensor("x"))), expected = host(tensor("y"));
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 64 * 0x1p-24);
  EXPECT_THAT(error_of([&] { load(path, *model); }), HasSubstr("model.safetensors: [load_state_dict] unexpected x, y"));
}

TEST(StateFiles, OfOursComeBack) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "model.safetensors").string();
  const auto model = small_model(), other = small_model();
  set_state(*model);
  save(path, *model);
  load(path, *other);
  const StateDict a = model->state_dict(), b = other->state_dict();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(host(a[i].tensor), host(b[i].tensor)) << a[i].name;
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace gabbro::nn
