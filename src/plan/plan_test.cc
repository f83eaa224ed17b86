// Guarantees of plans, checked on the null device: it plans, and runs nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"
#include "src/plan/fusion.h"
#include "src/plan/launch_name.h"

namespace gabbro {
namespace {

class PlanTest : public testing::Test {
 protected:
  Tensor leaf(const Shape& shape, DType dtype = DType::f32) { return device_->upload(dtype, shape, nullptr); }
  std::vector<std::string> launches(const Tensor& result) {
    Plan plan(device_, trace(std::span(&result, 1)).program);
    std::vector<std::string> names;
    for (const PlanStep& step : plan.steps()) names.push_back(launch_name(step));
    return names;
  }

  std::shared_ptr<Device> device_ = open_device("null");
};

TEST_F(PlanTest, ViewsAreNotLaunches) {
  const Tensor x = leaf(Shape{4, 6});
  EXPECT_THAT(launches(exp(slice(permute(reshape(x, Shape{2, 2, 6}), {2, 0, 1}), 0, 1, 3))),
              testing::ElementsAre("exp"));
}

TEST_F(PlanTest, WhatHasNoElementsIsNotComputed) {
  const Tensor x = exp(leaf(Shape{5, 8}));
  const Tensor none = gather(x, leaf(Shape{0}, DType::i32));  // [0, 8]
  EXPECT_THAT(launches(linear(rms_norm(none, leaf(Shape{8}), 1e-5f), leaf(Shape{3, 8}))), testing::ElementsAre("exp"));
  EXPECT_THAT(launches(sum(permute(none, {1, 0}), -1)), testing::Contains("sum")) << "eight zeros";
}

TEST_F(PlanTest, WhatIsCalledTwiceIsComputedOnce) {
  const Tensor x = leaf(Shape{4, 6});
  EXPECT_THAT(launches(concat({exp(x) + exp(reshape(x, Shape{4, 6})), exp(x)}, 0)),
              testing::ElementsAre("elementwise exp add", "concat"));
}

TEST_F(PlanTest, StepsComeInTheOrderOfTheCalls) {
  const Tensor x = leaf(Shape{4});
  const Tensor a = exp(x), b = sin(x), c = cos(x);
  EXPECT_THAT(launches(concat({c, a, b}, 0)), testing::ElementsAre("exp", "sin", "cos", "concat"));
}

TEST_F(PlanTest, AReshapeThatNeedsAnotherOrderCopies) {
  const Tensor x = leaf(Shape{4, 6});
  EXPECT_THAT(launches(reshape(permute(x, {1, 0}), Shape{24})), testing::ElementsAre("copy"));
}

TEST_F(PlanTest, AChainReusesItsMemory) {
  Tensor x = leaf(Shape{1000});
  for (int i = 0; i < 50; ++i) x = softmax(x);
  const Plan plan(device_, trace(std::span(&x, 1)).program);
  EXPECT_EQ(plan.steps().size(), 50U);
  EXPECT_LE(plan.arena_bytes(), 2U * 4032);
}

TEST_F(PlanTest, EqualGraphsArePlannedOnce) {
  for (int i = 0; i < 3; ++i) {
    const Tensor y = leaf(Shape{8}) + leaf(Shape{8});
    eval(std::span(&y, 1));
    EXPECT_TRUE(y.has_value());
  }
  EXPECT_EQ(plans_made(*device_), 1U);
  const Tensor other = leaf(Shape{9}) + leaf(Shape{9});
  eval(std::span(&other, 1));
  EXPECT_EQ(plans_made(*device_), 2U);
}

TEST_F(PlanTest, AttributesAndStridesTellPlansApart) {
  const Tensor x = leaf(Shape{4, 4});
  const Tensor w = leaf(Shape{4});
  for (const Tensor& y : {rms_norm(x, w, 1e-5f), rms_norm(x, w, 1e-6f)}) eval(std::span(&y, 1));
  EXPECT_EQ(plans_made(*device_), 2U);
  Tensor view = permute(x, {1, 0});
  eval(std::span(&view, 1));
  EXPECT_TRUE(view.state().storage == x.state().storage);  // a view of a value has the value's memory
  for (const Tensor& y : {exp(x), exp(view)}) eval(std::span(&y, 1));
  EXPECT_EQ(plans_made(*device_), 5U);
}

TEST_F(PlanTest, ADeepGraphNeedsNoDeepStack) {
  Tensor x = leaf(Shape{1});
  for (int i = 0; i < 200'000; ++i) x = neg(x);
  EXPECT_EQ(trace(std::span(&x, 1)).program.instructions.size(), 200'000U);
}  // and its destruction

TEST_F(PlanTest, ASharedPartOfAPendingGraphOutlivesTheRest) {
  Tensor part = exp(leaf(Shape{3}));
  { const Tensor whole = neg(neg(part)); }
  EXPECT_THAT(launches(part), testing::ElementsAre("exp"));
}

TEST_F(PlanTest, CompiledFunctionsReplayWithoutNewMemory) {
  const Tensor x = leaf(Shape{100});
  Compiled compiled([&] { return std::vector{exp(x) + x}; });
  const void* first = compiled()[0].state().storage.get();
  EXPECT_EQ(compiled()[0].state().storage.get(), first);  // the first result had no holder
  const Tensor held = compiled()[0];
  EXPECT_NE(compiled()[0].state().storage.get(), held.state().storage.get());
}

TEST_F(PlanTest, CompiledFunctionsTakeOtherInputsWithTheLayoutOfTheFirst) {
  const Tensor a = leaf(Shape{2, 3}), unused = leaf(Shape{1}), weight = leaf(Shape{3});
  Compiled compiled([&] { return std::vector{add(a, weight), a}; }, std::vector{a, unused});
  const std::vector<float> values = {10, 20, 30, 40, 50, 60};
  const Tensor b = device_->upload(DType::f32, Shape{2, 3}, values.data());
  const std::vector<Tensor> results = compiled(std::vector{b, unused});
  EXPECT_EQ(results[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(to_host<float>(results[1]), values);
  EXPECT_THROW(compiled(std::vector{b}), Error);
  EXPECT_THROW(compiled(std::vector{permute(leaf(Shape{3, 2}), {1, 0}), unused}), Error);  // without a value
  const Tensor transposed = permute(leaf(Shape{3, 2}), {1, 0});
  eval(std::span(&transposed, 1));
  EXPECT_THROW(compiled(std::vector{transposed, unused}), Error);  // of other strides
}

TEST_F(PlanTest, AnEvaluationIsTracedPlannedAndRunInSteps) {
  const Tensor x = add(leaf(Shape{5}), leaf(Shape{5}));
  Evaluation first(std::span(&x, 1)), second(std::span(&x, 1));
  EXPECT_TRUE(first.has_work());
  first.run();
  EXPECT_FALSE(x.has_value());
  first.finish();
  EXPECT_TRUE(x.has_value());
  const void* storage = x.state().storage.get();
  second.run();
  second.finish();  // was traced before the first had ended: what is there stays
  EXPECT_EQ(x.state().storage.get(), storage);
  EXPECT_FALSE(Evaluation(std::span(&x, 1)).has_work());
}

TEST_F(PlanTest, TensorsMoveToOtherDevicesWithTheirLayout) {
  const std::shared_ptr<Device> other = open_device("null");
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const Tensor x = permute(slice(device_->upload(DType::f32, Shape{4, 6}, values.data()), 1, 1, 3), {1, 0});
  const Tensor moved = to_device(x, other);
  EXPECT_EQ(moved.device(), other);
  EXPECT_EQ(moved.shape(), (Shape{3, 4}));
  EXPECT_EQ(to_host<float>(moved), (std::vector<float>{1, 7, 13, 19, 2, 8, 14, 20, 3, 9, 15, 21}));
  EXPECT_EQ(&to_device(moved, other).state(), &moved.state());
  EXPECT_EQ(to_device(leaf(Shape{0, 3}), other).shape(), (Shape{0, 3}));
}

TEST_F(PlanTest, CanceledRunsThrowInterrupted) {
  const std::atomic<bool> cancel = true;
  const Tensor y = exp(leaf(Shape{3}));
  try {
    eval(std::span(&y, 1), &cancel);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
  EXPECT_FALSE(y.has_value());
}

// One layer of a decoder, written as the models write it.
struct Decoder {
  static constexpr int64_t kC = 64, kH = 4, kG = 2, kD = 16, kF = 96, kP = 64, kPages = 2;
  std::shared_ptr<Device> device;
  int64_t tokens = 3;
  bool separate = false;  // of separate sequences
  Tensor leaf(const Shape& shape, DType dtype = DType::f32) const { return device->upload(dtype, shape, nullptr); }

  Tensor operator()() const {
    const Tensor x = leaf(Shape{tokens, kC});
    const TokenPositions places{.positions = leaf(Shape{tokens}, DType::i32),
                                .sequence = leaf(Shape{tokens}, DType::i32),
                                .page_table = leaf(Shape{separate ? tokens : 1, kPages}, DType::i32),
                                .slots = {},
                                .separate = separate};
    const Tensor frequencies = leaf(Shape{kD / 2});
    const auto matrix = [&](int64_t n, int64_t k) { return leaf(Shape{n, k}, DType::q8_0); };
    Tensor h = rms_norm(x, leaf(Shape{kC}), 1e-5f);
    const auto heads = [&](const Tensor& y) { return reshape(y, Shape{tokens, y.shape()[1] / kD, kD}); };
    const Tensor q = rope(heads(linear(h, matrix(kH * kD, kC))), places.positions, frequencies, {});
    const Tensor k = rope(heads(linear(h, matrix(kG * kD, kC))), places.positions, frequencies, {});
    const Tensor v = heads(linear(h, matrix(kG * kD, kC)));
    const KvLayer cache = kv_write(
        {.keys = leaf(Shape{kPages, kG, kD, kP}, DType::f16), .values = leaf(Shape{kPages, kG, kP, kD}, DType::f16)}, k,
        v, places);
    const Tensor mixed = reshape(attention(q, cache, places, {.scale = 0.25f}), Shape{tokens, kH * kD});
    const Tensor y = x + linear(mixed, matrix(kC, kH * kD));
    h = rms_norm(y, leaf(Shape{kC}), 1e-5f);
    return y + linear(silu(linear(h, matrix(kF, kC))) * linear(h, matrix(kF, kC)), matrix(kC, kF));
  }
};

TEST_F(PlanTest, ADecoderLayerIsFiveLaunches) {
  EXPECT_THAT(launches(Decoder{device_}()),
              testing::ElementsAre("linear_fused", "rope_kv_write", "attention", "linear_fused", "feed_forward"));
}

TEST_F(PlanTest, ADecoderLayerOfOneTokenIsFourLaunches) {
  EXPECT_THAT(launches(Decoder{device_, 1}()),
              testing::ElementsAre("linear_fused", "attention_step", "linear_fused", "feed_forward"));
}

TEST_F(PlanTest, SoIsOneOfTokensOfSeparateSequences) {
  EXPECT_THAT(launches(Decoder{device_, 3, true}()),
              testing::ElementsAre("linear_fused", "attention_step", "linear_fused", "feed_forward"));
}

TEST_F(PlanTest, ScalesThatSomeoneElseReadsAreWrittenBeforeHeReadsThem) {
  const TokenPositions places{leaf(Shape{1}, DType::i32), leaf(Shape{1}, DType::i32), leaf(Shape{1, 1}, DType::i32)};
  const Tensor frequencies = leaf(Shape{16});
  const auto attend = [&](bool reader) {
    const Tensor x = leaf(Shape{1, 1, 32});
    const KvLayer cache = kv_write({.keys = leaf(Shape{1, 1, 32, 16}, DType::i8),
                                    .values = leaf(Shape{1, 1, 16, 32}, DType::i8),
                                    .key_scales = leaf(Shape{1, 1, 1, 16}, DType::f16),
                                    .value_scales = leaf(Shape{1, 1, 16, 1}, DType::f16)},
                                   rope(x, places.positions, frequencies, {}), x, places);
    const Tensor y = attention(rope(x, places.positions, frequencies, {}), cache, places, {});
    return reader ? concat({cast(reshape(cache.key_scales, Shape{16}), DType::f32), reshape(y, Shape{32})}, 0) : y;
  };
  EXPECT_THAT(launches(attend(false)), testing::ElementsAre("attention_step"));
  EXPECT_THAT(launches(attend(true)),
              testing::ElementsAre("rope", "kv_write", "kv_write", "attention", "cast", "concat"));
}

TEST_F(PlanTest, AValueThatSomeoneElseReadsIsNotFusedAway) {
  const Tensor x = leaf(Shape{2, 32});
  const Tensor h = rms_norm(x, leaf(Shape{32}), 1e-5f);
  const Tensor y = linear(h, leaf(Shape{8, 32})) + slice(exp(h), 1, 0, 8);
  EXPECT_THAT(launches(y), testing::UnorderedElementsAre("rms_norm", "exp", "linear_fused"));
}

TEST_F(PlanTest, AGatedProductThatSomeoneElseReadsIsNotFusedAway) {
  const Tensor x = leaf(Shape{2, 32});
  const Tensor gated = silu(linear(x, leaf(Shape{64, 32}))) * linear(x, leaf(Shape{64, 32}));
  const Tensor down = linear(gated, leaf(Shape{32, 64}));
  EXPECT_THAT(launches(down), testing::ElementsAre("feed_forward"));
  EXPECT_THAT(launches(x + down), testing::ElementsAre("feed_forward"));
  EXPECT_THAT(launches(concat({gated, down}, 1)), testing::ElementsAre("linear_fused", "linear", "concat"));
  EXPECT_THAT(launches(down + slice(gated, 1, 0, 32)), testing::ElementsAre("linear_fused", "linear_fused"));
}

TEST_F(PlanTest, TheInputOfAResidualIsTheStreamAndNotTheProduct) {
  const Tensor x = leaf(Shape{2, 8});
  const Tensor y = linear(x, leaf(Shape{8, 8}));
  EXPECT_THAT(launches(y + y), testing::ElementsAre("linear", "add"));
  EXPECT_THAT(launches(y + x), testing::ElementsAre("linear_fused"));
}

TEST_F(PlanTest, AWeightMadeFromAnotherLinearOfTheSameInputComesAfterIt) {
  const Tensor x = leaf(Shape{8, 8});
  const Tensor h = rms_norm(x, leaf(Shape{8}), 1e-5f);
  const Tensor weight = exp(linear(h, leaf(Shape{8, 8})));
  EXPECT_THAT(launches(linear(h, weight)), testing::ElementsAre("rms_norm", "linear", "exp", "linear"));
}

TEST_F(PlanTest, AMatrixThatIsInputHereAndWeightThereIsNotOneGroup) {
  const Tensor x = leaf(Shape{8, 8});
  const Tensor a = linear(x, leaf(Shape{8, 8}));
  const Tensor b = linear(leaf(Shape{8, 8}), x);
  EXPECT_THAT(launches(concat({a, b}, 0)), testing::ElementsAre("linear", "linear", "concat"));
}

TEST_F(PlanTest, AProductOfTwoStreamsTakesOneAsTheResidualOfTheOther) {
  const Tensor a = leaf(Shape{2, 8});
  const Tensor b = leaf(Shape{2, 8});
  const Tensor w = leaf(Shape{8, 8});
  EXPECT_THAT(launches(linear(a, w) + linear(b, w)), testing::ElementsAre("linear", "linear_fused"));
}

TEST_F(PlanTest, NoTwoOpsHaveOneName) {
  std::vector<std::string> names;
  for (const Op* op : op_table()) names.emplace_back(op->name);
  std::ranges::sort(names);
  EXPECT_TRUE(std::ranges::adjacent_find(names) == names.end());
}

TEST_F(PlanTest, ResultsOnTwoDevicesAreRefused) {
  const auto other = open_device("null");
  const Tensor both[] = {exp(leaf(Shape{2})), exp(other->upload(DType::f32, Shape{2}, nullptr))};
  EXPECT_THROW(eval(both), Error);
  EXPECT_THROW(Compiled([&] { return std::vector{both[0], both[1]}; }), Error);
  const Tensor undefined;
  EXPECT_THROW(eval(std::span(&undefined, 1)), Error);
  EXPECT_THROW(Compiled([] { return std::vector<Tensor>(); }), Error);
}

TEST_F(PlanTest, ACompiledFunctionWithoutInputsKeepsItsDevice) {
  std::shared_ptr<Device> own = open_device("null");
  Compiled compiled([&] { return std::vector{exp(iota(own, 5, DType::f32))}; });
  own.reset();
  EXPECT_EQ(compiled()[0].shape(), Shape{5});
}

TEST_F(PlanTest, EmptyStepsAreNotLaunchedAndTheirReadersRun) {
  const Tensor x = leaf(Shape{3, 4});
  const Tensor empty = exp(slice(x, 0, 3, 0));
  EXPECT_THAT(launches(empty), testing::ElementsAre());
  const Tensor y = concat({x, empty}, 0);
  EXPECT_THAT(launches(y), testing::ElementsAre("concat"));
  eval(std::span(&y, 1));
  EXPECT_EQ(y.shape(), (Shape{3, 4}));
}

TEST_F(PlanTest, OneTensorMayBeAskedForTwiceAndAnInputMayBeAResult) {
  const Tensor x = leaf(Shape{4});
  const Tensor y = exp(x);
  Compiled compiled([&] { return std::vector{y, y, x, reshape(y, Shape{2, 2})}; });
  const std::vector<Tensor> results = compiled();
  EXPECT_EQ(results[0].state().storage, results[1].state().storage);
  EXPECT_EQ(results[0].state().storage, results[3].state().storage);
  EXPECT_EQ(results[2].state().storage, x.state().storage);
}

TEST_F(PlanTest, OnlyContiguousMemoryIsOverwrittenOrRead) {
  const Tensor x = leaf(Shape{4, 2});
  const std::vector<float> values(8, 1.5f);
  overwrite(x, values.data(), 32);
  EXPECT_EQ(to_host<float>(x), values);
  EXPECT_THROW(overwrite(x, values.data(), 16), Error);
  EXPECT_THROW(overwrite(exp(x), values.data(), 32), Error);
  Tensor transposed = permute(x, {1, 0});
  EXPECT_THROW(overwrite(transposed, values.data(), 32), Error);
  EXPECT_THROW(to_host<uint16_t>(x), Error);
  EXPECT_EQ(to_host<float>(slice(x, 0, 4, 0)).size(), 0U);
}

TEST_F(PlanTest, ExplainNamesEachLaunchWithItsShapes) {
  const Tensor x = leaf(Shape{2, 3});
  const Tensor y = exp(x);
  const Plan plan(device_, trace(std::span(&y, 1)).program);
  EXPECT_EQ(plan.explain(),
            "exp              null                         f32(2, 3) -> (2, 3)\n1 launches; arena 0.0 KiB\n");
}

TEST_F(PlanTest, APictureHasEachLaunchAndWhatItReads) {
  const Tensor x = leaf(Shape{2, 3});
  const Tensor y = matmul(x, permute(x, {1, 0}));
  const std::string dot = Plan(device_, trace(std::span(&y, 1)).program).to_dot();
  EXPECT_THAT(dot, testing::StartsWith("digraph plan {\n"));
  EXPECT_THAT(dot, testing::HasSubstr("s0 [label=\"matmul\\nnull\\n"));
  EXPECT_THAT(
      dot, testing::HasSubstr("in0 -> s0 [label=\"f32 (2, 3)\"];\n  in0 -> s0 [label=\"f32 (3, 2)\"];\n  s0 -> out0"));
  EXPECT_THAT(dot, testing::HasSubstr("in0 [label=\"input 0\""));
  EXPECT_THAT(dot, testing::HasSubstr("label=\"1 launches, arena"));
}

TEST_F(PlanTest, ThePlansOfManyShapesAreForgottenInTurn) {
  for (int round = 0; round < 2; ++round) {
    for (int64_t n = 1; n <= 300; ++n) {
      const Tensor y = exp(leaf(Shape{n}));
      eval(std::span(&y, 1));
    }
  }
  EXPECT_EQ(plans_made(*device_), 600U);  // 300 are more than are kept
  const Tensor last = exp(leaf(Shape{300}));
  eval(std::span(&last, 1));
  EXPECT_EQ(plans_made(*device_), 600U);
}

}  // namespace
}  // namespace gabbro
