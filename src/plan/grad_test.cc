// Guarantees of training steps about launches, memory and errors, checked on the null device: it plans, and runs
// nothing.
#include "src/ops/grad.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/ops/ops.h"
#include "src/ops/refusals.h"
#include "src/plan/eval.h"
#include "src/plan/launch_name.h"

namespace gabbro {
namespace {

Tensor parameter(const Shape& shape, DType dtype = DType::f32) {
  const Tensor x = leaf(shape, dtype);
  require_gradient(x);
  return x;
}

Plan plan_of(const std::vector<Tensor>& results) { return Plan(device(), trace(results).program); }

std::vector<std::string> launches(const std::vector<Tensor>& results) {
  const Plan plan = plan_of(results);
  std::vector<std::string> names;
  for (const PlanStep& step : plan.steps()) names.push_back(launch_name(step));
  return names;
}

Tensor total(const Tensor& x) { return sum(x, kAllAxes); }

TEST(Gradients, AreRecordedOnlyWhereAnInputNeedsOne) {
  const Tensor x = leaf(Shape{3}), w = parameter(Shape{3});
  EXPECT_FALSE(needs_gradient(exp(x)));
  EXPECT_TRUE(needs_gradient(x * w));
  EXPECT_FALSE(needs_gradient(greater(x, w))) << "bool";
  EXPECT_FALSE(needs_gradient(argmax(w, -1))) << "integers";
  EXPECT_FALSE(needs_gradient(detach(exp(w))));
  {
    const NoGrad no_grad;
    EXPECT_FALSE(needs_gradient(x * w));
    const GradientMode again(true);
    EXPECT_TRUE(needs_gradient(x * w));
  }
  EXPECT_TRUE(needs_gradient(x * w));
}

TEST(Gradients, HaveTheShapeAndDtypeOfTheirTensor) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor a = parameter(Shape{3, 1, 4}, dtype), b = parameter(Shape{2, 1}, dtype), c = parameter(Shape{}, dtype);
    const Tensor inputs[] = {a, b, c};
    const std::vector<Tensor> results = gradients(total(tanh(a * b) / c), inputs);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i].spec(), inputs[i].spec());
  }
}

TEST(Gradients, AreZeroWhereTheOutputDoesNotDependOnTheInput) {
  const Tensor x = parameter(Shape{3}), unused = parameter(Shape{2, 2});
  const std::vector<Tensor> results = gradients(total(x * x), std::vector{x, unused});
  EXPECT_EQ(results[1].shape(), (Shape{2, 2}));
  EXPECT_THAT(launches({results[1]}), testing::ElementsAre("iota"));
}

TEST(Gradients, OfAFunctionDependOnWhatItCaptures) {
  const Tensor x = leaf(Shape{3}), w = parameter(Shape{3});
  const Function loss = [&](std::span<const Tensor> in) { return total(in[0] * in[0] * w); };
  const ValueAndGradients with_history = value_and_grad(loss, std::span(&x, 1));
  EXPECT_TRUE(needs_gradient(with_history.value));
  EXPECT_TRUE(needs_gradient(with_history.gradients[0]));
  {
    const NoGrad no_grad;
    EXPECT_FALSE(needs_gradient(value_and_grad(loss, std::span(&x, 1)).gradients[0]));
  }
  const Function alone = [](std::span<const Tensor> in) { return total(in[0] * in[0]); };
  EXPECT_FALSE(needs_gradient(value_and_grad(alone, std::span(&w, 1)).gradients[0]))
      << "its only input is the argument";
}

TEST(Gradients, BadCallsAreRefused) {
  const Tensor x = parameter(Shape{2, 3}), ints = leaf(Shape{3}, DType::i32), plain = leaf(Shape{3});
  const Tensor y = total(exp(x)), once = total(exp(x));
  backward(once);
  const KvLayer cache{.keys = leaf(Shape{1, 1, 32, 16}, DType::f16), .values = leaf(Shape{1, 1, 16, 32}, DType::f16)};
  const TokenPositions places{leaf(Shape{1}, DType::i32), leaf(Shape{1}, DType::i32), leaf(Shape{1, 1}, DType::i32)};
  const Tensor key = parameter(Shape{1, 1, 32});
  const Tensor written = total(cast(kv_write(cache, key, key, places).keys, DType::f32));
  const auto by_x = [&](const Tensor& output, const GradientOptions& options = {}) {
    gradients(output, std::span(&x, 1), options);
  };
  const std::vector<Refusal> refusals = {
      {[&] { require_gradient(ints); },
       "[requires_grad] i32 (3,) cannot have a gradient: only f16, bf16, f32 and f64 can"},
      {[&] { require_gradient(Tensor()); }, "[requires_grad] the tensor is undefined"},
      {[&] { require_gradient(y); },
       "[requires_grad] f32 () was computed from a tensor that requires a gradient; detach it"},
      {[&] { by_x(exp(x)); }, "[gradients] the output f32 (2, 3) is not one number, so it needs a seed"},
      {[&] { by_x(plain); }, "[gradients] the output f32 (3,) does not require a gradient"},
      {[&] { by_x(Tensor()); }, "[gradients] the output is undefined"},
      {[&] { by_x(exp(x), {.seed = plain}); }, "[gradients] the seed f32 (3,) does not fit the output f32 (2, 3)"},
      {[&] {
         gradients(y, std::vector{x, plain});
       },
       "[gradients] input 1, f32 (3,), does not require a gradient"},
      {[&] { by_x(once); }, "[gradients] the history of f32 () was freed by backward(): ask it to keep the history"},
      {[&] { backward(exp(x)); }, "[backward] the output f32 (2, 3) is not one number, so it needs a seed"},
      {[&] { gradients(written, std::span(&key, 1)); }, "[kv_write] has no gradient"},
      {[&] { value_and_grad([](std::span<const Tensor> in) { return exp(in[0]); }, std::span(&x, 1)); },
       "[value_and_grad] the function gave f32 (2, 3), not one number"},
      {[&] { value_and_grad([](std::span<const Tensor> in) { return total(in[0]); }, std::span(&ints, 1)); },
       "[requires_grad] i32 (3,) cannot have a gradient: only f16, bf16, f32 and f64 can"},
  };
  expect_refusals(refusals);
  clear_gradient(x);  // it is pending, and holds x
}

TEST(Gradients, OfATensorUsedSeveralTimesAreSummed) {
  const Tensor x = parameter(Shape{4});
  const std::vector<Tensor> results = gradients(total(x * x), std::span(&x, 1));
  // The seed, dy·x, which either factor gets, and the sum of the two.
  EXPECT_THAT(launches(results), testing::ElementsAre("elementwise const mul add"));
}

TEST(Backward, SumsUpInTheLeavesAndFreesTheHistory) {
  const Tensor w = parameter(Shape{4});
  const Tensor h = exp(w);
  EXPECT_FALSE(gradient_of(w).defined());
  const Tensor loss = total(h);
  backward(loss, {.keep_history = true});
  const Tensor first = gradient_of(w);
  backward(loss);
  EXPECT_NE(&gradient_of(w).state(), &first.state());
  EXPECT_EQ(h.state().history->node, nullptr);
  EXPECT_THAT(launches({gradient_of(w)}), testing::Contains("elementwise const exp mul add"));
  clear_gradient(w);
  EXPECT_FALSE(gradient_of(w).defined());
}

TEST(Backward, LongHistoriesAreWalkedAndFreedWithoutRecursion) {
  const Tensor x = parameter(Shape{1});
  Tensor y = x;
  for (int i = 0; i < 100'000; ++i) y = y + x;
  backward(y);
  y = Tensor();
  Tensor z = exp(x);
  for (int i = 0; i < 100'000; ++i) {
    z = neg(z);
    if (i % 1000 == 0) eval(std::span(&z, 1));  // the history outlives the computation
  }
  z = Tensor();
  clear_gradient(x);
}

// A perceptron of two layers, whose weights want gradients.
struct Perceptron {
  Tensor w1 = parameter(Shape{16, 8}), b1 = parameter(Shape{16}), w2 = parameter(Shape{4, 16}),
         b2 = parameter(Shape{4});
  Tensor x = leaf(Shape{32, 8}), labels = leaf(Shape{32}, DType::i32);

  Tensor hidden() const { return relu(linear(x, w1, b1)); }
  Tensor loss() const { return cross_entropy(linear(hidden(), w2, b2), labels); }
  std::vector<Tensor> parameters() const { return {w1, b1, w2, b2}; }
};

TEST(TrainingStep, OfAPerceptronHasThisManyLaunches) {
  const Perceptron p;
  const Tensor loss = p.loss();
  std::vector<Tensor> step = gradients(loss, p.parameters());
  step.push_back(loss);
  const std::vector<std::string> names = launches(step);
  EXPECT_EQ(std::ranges::count(names, "linear"), 1);
  EXPECT_EQ(std::ranges::count(names, "matmul_fused"), 1) << "the first linear, with its relu";
  EXPECT_EQ(std::ranges::count(names, "matmul"), 3) << "dW2, dh, dW1; dx is unused";
  EXPECT_EQ(std::ranges::count(names, "copy"), 0) << testing::PrintToString(names);
  EXPECT_LE(names.size(), 33U) << testing::PrintToString(names);
}

// A decoder layer as one would train it: causal attention over all tokens.
struct Layer {
  static constexpr int64_t kB = 2, kT = 10, kC = 32, kH = 4, kD = 8, kF = 64;
  std::vector<Tensor> w{parameter(Shape{kC}),    parameter(Shape{3 * kC, kC}), parameter(Shape{kC, kC}),
                        parameter(Shape{kC}),    parameter(Shape{kF, kC}),     parameter(Shape{kF, kC}),
                        parameter(Shape{kC, kF})};

  Tensor operator()(const Tensor& x) const {
    const Tensor qkv =
        permute(reshape(linear(rms_norm(x, w[0], 1e-5f), w[1]), Shape{kB, kT, 3, kH, kD}), {2, 0, 3, 1, 4});
    const auto part = [&](int64_t i) { return reshape(slice(qkv, 0, i, 1), Shape{kB, kH, kT, kD}); };
    const Tensor scores = matmul(part(0), permute(part(1), {0, 1, 3, 2})) * scalar(device(), 0.35);
    const Tensor place = iota(device(), kT, DType::i32);
    const Tensor visible = less_equal(place, reshape(place, Shape{kT, 1}));
    const Tensor mixed = matmul(softmax(where(visible, scores, scalar(device(), -1e9))), part(2));
    const Tensor y = x + linear(reshape(permute(mixed, {0, 2, 1, 3}), Shape{kB, kT, kC}), w[2]);
    const Tensor h = rms_norm(y, w[3], 1e-5f);
    return y + linear(silu(linear(h, w[4])) * linear(h, w[5]), w[6]);
  }
};

TEST(TrainingStep, OfADecoderLayerHasThisManyLaunches) {
  const Layer layer;
  const Tensor x = parameter(Shape{Layer::kB, Layer::kT, Layer::kC});
  std::vector<Tensor> wanted = layer.w;
  wanted.push_back(x);
  const Tensor loss = total(layer(x));
  std::vector<Tensor> step = gradients(loss, wanted);
  step.push_back(loss);
  const std::vector<std::string> names = launches(step);
  EXPECT_EQ(std::ranges::count(names, "linear_fused"), 3) << "forwards everything is fused as without gradients";
  EXPECT_EQ(std::ranges::count(names, "linear"), 1);
  EXPECT_EQ(std::ranges::count(names, "matmul"), 2 + 4 + 5 * 2) << "attention and its gradients, two for each weight";
  EXPECT_LE(names.size(), 90U) << testing::PrintToString(names);
}

TEST(TrainingStep, ValuesThatTheGradientReadsAreKeptWhenTheLossIsEvaluatedFirst) {
  const Perceptron p;
  Tensor loss = p.loss();
  eval(std::span(&loss, 1));
  backward(loss);
  std::vector<Tensor> grads;
  for (const Tensor& parameter : p.parameters()) grads.push_back(gradient_of(parameter));
  EXPECT_EQ(std::ranges::count(launches(grads), "linear"), 0) << "no part of the forward pass again";
  EXPECT_EQ(std::ranges::count(launches(grads), "log_softmax"), 0);
}

TEST(TrainingStep, ValuesThatTheGradientReadsAreKeptWhenTheLossIsEvaluatedAfterBackward) {
  const Perceptron p;
  Tensor loss = p.loss();
  backward(loss);
  eval(std::span(&loss, 1));
  std::vector<Tensor> grads;
  for (const Tensor& parameter : p.parameters()) grads.push_back(gradient_of(parameter));
  EXPECT_EQ(std::ranges::count(launches(grads), "linear"), 0);
  EXPECT_EQ(std::ranges::count(launches(grads), "log_softmax"), 0);
}

TEST(TrainingStep, OnlyWhatTheGradientReadsIsKept) {
  const Tensor w = parameter(Shape{4});
  std::weak_ptr<TensorState> shifted, exponential;
  const Tensor loss = [&] {
    const Tensor h = w + leaf(Shape{4}), e = exp(h);
    shifted = h.shared_state();
    exponential = e.shared_state();
    return total(e);
  }();
  eval(std::span(&loss, 1));
  EXPECT_TRUE(Tensor(exponential.lock()).has_value()) << "exp's rule reads what it gave";
  EXPECT_FALSE(Tensor(shifted.lock()).has_value()) << "and no rule reads its input";
}

TEST(TrainingStep, AnOutputWithoutHoldersIsLeftWithItsNode) {
  const Tensor x = parameter(Shape{3, 9});
  const Tensor loss = total(exp(sort(x)));  // the gradient reads the places, which `sort` let go
  eval(std::span(&loss, 1));
  const std::vector<std::string> names = launches(gradients(loss, std::span(&x, 1)));
  EXPECT_EQ(std::ranges::count(names, "sort"), 0);
  EXPECT_EQ(std::ranges::count(names, "scatter_add"), 1);
}

TEST(Eval, KeepsIntermediatesThatSomeoneHolds) {
  const Tensor w = parameter(Shape{4});
  const NoGrad no_grad;
  std::weak_ptr<TensorState> read;
  const Tensor held = exp(w);
  const Tensor y = [&] {
    const Tensor shifted = held + w;
    read = shifted.shared_state();
    return total(shifted * w);
  }();
  eval(std::span(&y, 1));
  EXPECT_TRUE(held.has_value());
  EXPECT_TRUE(read.expired()) << "no one holds it, so it was not kept";
}

TEST(Eval, PlansATrainingStepOnceAndKeepsWhatSomeoneHolds) {
  const Perceptron p;
  std::vector<size_t> plans;
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = p.loss(), held = exp(loss);
    backward(held);
    std::vector<Tensor> results;
    for (const Tensor& parameter : p.parameters()) {
      results.push_back(gradient_of(parameter));
      results.push_back(results.back());  // twice the same
      clear_gradient(parameter);
    }
    eval(results);
    EXPECT_TRUE(std::ranges::all_of(results, &Tensor::has_value));
    EXPECT_TRUE(held.has_value() && loss.has_value()) << "both are read by the gradients";
    plans.push_back(plans_made(*device()));
  }
  EXPECT_THAT(plans, testing::Each(plans.front()));
}

// A deep perceptron of equal layers.
Tensor deep(const Tensor& x, const std::vector<Tensor>& weights, size_t from, size_t to) {
  Tensor h = x;
  for (size_t i = from; i < to; ++i) h = tanh(linear(h, weights[i]));
  return h;
}

TEST(Checkpoint, OfEachLayerTakesMostOfATransformersArenaAway) {
  const std::vector<Layer> layers(24);
  const auto arena = [&](bool recompute) {
    Tensor x = leaf(Shape{Layer::kB, Layer::kT, Layer::kC});
    std::vector<Tensor> wanted;
    for (const Layer& layer : layers) {
      const auto f = [&](std::span<const Tensor> in) { return std::vector{layer(in[0])}; };
      x = recompute ? checkpoint(f, std::span(&x, 1))[0] : layer(x);
      wanted.insert(wanted.end(), layer.w.begin(), layer.w.end());
    }
    std::vector<Tensor> step = gradients(total(x), wanted);
    return plan_of(step).arena_bytes();
  };
  EXPECT_LE(static_cast<double>(arena(true)), 0.4 * static_cast<double>(arena(false)));
}

TEST(Checkpoint, RunsTheFunctionOnceMoreAlsoWhenTheLossIsEvaluatedFirst) {
  const std::vector<Tensor> weights(6, parameter(Shape{8, 8}));
  Tensor h = leaf(Shape{4, 8});
  for (size_t i = 0; i < 6; i += 2) {
    const auto pair = [&, i](std::span<const Tensor> in) { return std::vector{deep(in[0], weights, i, i + 2)}; };
    h = checkpoint(pair, std::span(&h, 1))[0];
  }
  Tensor loss = total(h);
  h = Tensor();
  eval(std::span(&loss, 1));
  EXPECT_EQ(std::ranges::count(launches(gradients(loss, weights)), "linear"), 6);
}

TEST(Checkpoint, HalvesTheArenaOfADeepPerceptron) {
  constexpr size_t kLayers = 32, kSegment = 4;
  std::vector<Tensor> weights;
  for (size_t i = 0; i < kLayers; ++i) weights.push_back(parameter(Shape{8, 8}));
  const Tensor x = leaf(Shape{1024, 8});
  const auto step = [&](const Tensor& loss) {
    std::vector<Tensor> results = gradients(loss, weights);
    results.push_back(loss);
    return plan_of(results).arena_bytes();
  };
  const size_t stored = step(total(deep(x, weights, 0, kLayers)));
  Tensor h = x;
  for (size_t i = 0; i < kLayers; i += kSegment) {
    const auto segment = [&, i](std::span<const Tensor> in) {
      return std::vector{deep(in[0], weights, i, i + kSegment)};
    };
    h = checkpoint(segment, std::span(&h, 1))[0];
  }
  const size_t recomputed = step(total(h));
  constexpr size_t kLayer = 1024 * 8 * sizeof(float);
  EXPECT_GE(stored, kLayers * kLayer);
  EXPECT_LE(recomputed, (kLayers / kSegment + kSegment + 6) * kLayer) << "the segments' inputs, and one segment";
}

}  // namespace
}  // namespace gabbro
