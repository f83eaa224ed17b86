// Arguments that the ops refuse: each message names the op and the argument, and its code is that of bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "src/ops/ops.h"
#include "src/ops/refusals.h"

namespace gabbro {
namespace {

Tensor packed(int64_t rows, int64_t columns) {
  Tensor tensor = leaf(Shape{rows, columns});
  tensor.state().spec.packed = true;
  return tensor;
}

KvLayer cache(DType dtype = DType::f16) {
  KvLayer layer{.keys = leaf(Shape{3, 2, 32, 16}, dtype), .values = leaf(Shape{3, 2, 16, 32}, dtype)};
  if (dtype == DType::i8) {
    layer.key_scales = leaf(Shape{3, 2, 1, 16}, DType::f16);
    layer.value_scales = leaf(Shape{3, 2, 16, 1}, DType::f16);
  }
  return layer;
}

TokenPositions places(int64_t tokens) {
  return {.positions = leaf(Shape{tokens}, DType::i32),
          .sequence = leaf(Shape{tokens}, DType::i32),
          .page_table = leaf(Shape{1, 3}, DType::i32)};
}

// A layer with one part replaced.
template <class T>
T with(T value, Tensor T::*part, Tensor other) {
  value.*part = std::move(other);
  return value;
}

TEST(Rules, ViewsNameTheShapes) {
  const Tensor x = leaf(Shape{2, 5});
  constexpr int64_t kLongest = std::numeric_limits<int64_t>::max();
  expect_refusals({
      {[&] {
         reshape(x, Shape{3, 3});
       },
       "[reshape] shape (3, 3) does not have the elements of (2, 5)"},
      {[&] {
         permute(x, {0, 0});
       },
       "[permute] the axes are not a permutation of the axes of shape (2, 5)"},
      {[&] { permute(x, {0}); }, "[permute] the axes are not a permutation of the axes of shape (2, 5)"},
      {[&] {
         permute(x, {0, -1});
       },
       "[permute] the axes are not a permutation of the axes of shape (2, 5)"},
      {[&] { broadcast_to(x, Shape{5}); }, "[broadcast_to] shape (2, 5) cannot be broadcast to (5,)"},
      {[&] {
         broadcast_to(x, Shape{4, 5});
       },
       "[broadcast_to] shapes (2, 5) and (4, 5) cannot be broadcast together"},
      {[&] {
         broadcast_to(x, Shape{1, 5});
       },
       "[broadcast_to] shape (2, 5) cannot be broadcast to (1, 5)"},
      {[&] { slice(x, 2, 0, 1); }, "[slice] axis 2 is out of range for shape (2, 5)"},
      {[&] { slice(x, 1, 3, 3); }, "[slice] 3 elements from 3 in steps of 1 are not inside axis 1 of shape (2, 5)"},
      {[&] { slice(x, -1, -1, 1); }, "[slice] 1 elements from -1 in steps of 1 are not inside axis -1 of shape (2, 5)"},
      {[&] { slice(x, 1, 0, 2, 0); }, "[slice] 2 elements from 0 in steps of 0 are not inside axis 1 of shape (2, 5)"},
      {[&] { slice(x, 1, 6, 0); }, "[slice] 0 elements from 6 in steps of 1 are not inside axis 1 of shape (2, 5)"},
      {[&] { slice(x, 1, 1, 3, kLongest / 2 + 1); },  // the end of such a slice does not fit in 64 bits
       "[slice] 3 elements from 1 in steps of 4611686018427387904 are not inside axis 1 of shape (2, 5)"},
  });
  EXPECT_EQ(slice(x, 1, 5, 0).shape(), (Shape{2, 0}));
  EXPECT_EQ(slice(x, 1, 4, 1, kLongest).shape(), (Shape{2, 1}));
}

TEST(Rules, ElementwiseOpsNameDtypesAndShapes) {
  const Tensor x = leaf(Shape{2, 5});
  const Tensor ints = leaf(Shape{5}, DType::i32);
  const Tensor flags = leaf(Shape{2, 5}, DType::boolean);
  expect_refusals({
      {[&] { x* leaf(Shape{4}); }, "[mul] shapes (2, 5) and (4,) cannot be broadcast together"},
      {[&] { where(x, x, x); }, "[where] does not take f32 of shape (2, 5) (only bool)"},
      {[&] { where(flags, x, leaf(Shape{3})); }, "[where] shapes (2, 5) and (3,) cannot be broadcast together"},
      {[&] { cast(x, DType::q4_0); }, "[cast] f32 to q4_0 is not done"},
      {[&] { neg(Tensor()); }, "[neg] an input is not a tensor"},
      {[&] { x - Tensor(); }, "[sub] an input is not a tensor"},
      {[&] { where(flags, x, Tensor()); }, "[where] an input is not a tensor"},
  });
}

TEST(Rules, BlockFormatsAndPackedMatricesAreForLinearAlone) {
  const Tensor blocks = leaf(Shape{4, 32}, DType::q8_0);
  const Tensor matrix = packed(4, 32);
  expect_refusals({
      {[&] { reshape(blocks, Shape{128}); },
       "[reshape] does not take a q8_0 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] {
         permute(matrix, {1, 0});
       },
       "[permute] does not take a packed f32 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] { slice(matrix, 0, 0, 1); },
       "[slice] does not take a packed f32 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] {
         broadcast_to(blocks, Shape{2, 4, 32});
       },
       "[broadcast_to] does not take a q8_0 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] { matrix + matrix; },
       "[add] does not take a packed f32 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] { cast(blocks, DType::f32); },
       "[cast] does not take a q8_0 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] { gather(blocks, leaf(Shape{1}, DType::i32)); },
       "[gather] does not take a q8_0 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] {
         concat({blocks, blocks}, 0);
       },
       "[concat] does not take a q8_0 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] { sum(matrix, kAllAxes); },
       "[sum] does not take a packed f32 matrix (4, 32): only linear, embedding and dequantize do"},
  });
  EXPECT_EQ(dequantize(matrix).dtype(), DType::f32);
  EXPECT_EQ(linear(leaf(Shape{3, 32}), blocks).shape(), (Shape{3, 4}));
}

TEST(Rules, ReductionsAndProductsNameTheShapes) {
  const Tensor x = leaf(Shape{2, 5});
  const Tensor number = leaf(Shape{});
  expect_refusals({
      {[&] { sum(number, -1); }, "[sum] axis -1 is out of range for shape ()"},
      {[&] { mean(x, 2); }, "[mean] axis 2 is out of range for shape (2, 5)"},
      {[&] {
         argmax(leaf(Shape{2, 0}), 1);
       },
       "[argmax] nothing to choose from in shape (2, 0)"},
      {[&] { softmax(number); }, "[softmax] axis -1 is out of range for shape ()"},
      {[&] { matmul(x, x); }, "[matmul] shapes (2, 5) and (2, 5) do not fit"},
      {[&] { matmul(leaf(Shape{5}), x); }, "[matmul] shapes (5,) and (2, 5) do not fit"},
      {[&] {
         matmul(leaf(Shape{3, 2, 5}), leaf(Shape{4, 5, 2}));
       },
       "[matmul] shapes (3,) and (4,) cannot be broadcast together"},
      {[&] { gather(number, leaf(Shape{1}, DType::i32)); }, "[gather] a scalar has no rows"},
      {[&] { gather(x, x); }, "[gather] does not take f32 of shape (2, 5) (only i8, u8, i16, i32, i64)"},
      {[&] {
         gather(x, leaf(Shape{1, 1}, DType::i32));
       },
       "[gather] wants 1 axes, not shape (1, 1)"},
      {[&] {
         gather(leaf(Shape{0, 5}), leaf(Shape{1}, DType::i32));
       },
       "[gather] shape (0, 5) has no rows to take"},
      {[&] { concat({}, 0); }, "[concat] nothing to concatenate"},
      {[&] {
         concat({x, leaf(Shape{2, 4})}, 0);
       },
       "[concat] f32 (2, 4) does not fit f32 (2, 5) along axis 0"},
      {[&] {
         concat({x, leaf(Shape{2})}, 1);
       },
       "[concat] f32 (2,) does not fit f32 (2, 5) along axis 1"},
      {[&] { concat({x}, 2); }, "[concat] axis 2 is out of range for shape (2, 5)"},
      {[&] { iota(device(), -1, DType::f32); }, "[iota] -1 elements"},
      {[&] { iota(nullptr, 1, DType::f32); }, "[iota] no device"},
  });
}

TEST(Rules, OpsWithWeightsNameBothShapes) {
  const Tensor x = leaf(Shape{2, 5});
  const Tensor ids = leaf(Shape{2}, DType::i32);
  expect_refusals({
      {[&] {
         linear(x, leaf(Shape{3, 4}));
       },
       "[linear] input (2, 5) does not fit weight (3, 4)"},
      {[&] { linear(x, leaf(Shape{5})); }, "[linear] wants 2 axes, not shape (5,)"},
      {[&] {
         linear(x, leaf(Shape{3, 5}), leaf(Shape{4}));
       },
       "[linear] bias (4,) does not fit weight (3, 5)"},
      {[&] {
         linear(leaf(Shape{}), leaf(Shape{3, 5}));
       },
       "[linear] input () does not fit weight (3, 5)"},
      {[&] { embedding(leaf(Shape{5}), ids); }, "[embedding] wants 2 axes, not shape (5,)"},
      {[&] { embedding(x, x); }, "[embedding] does not take f32 of shape (2, 5) (only i8, u8, i16, i32, i64)"},
      {[&] {
         embedding(leaf(Shape{0, 4}), ids);
       },
       "[embedding] the table (0, 4) has no rows"},
      {[&] { dequantize(leaf(Shape{32}, DType::q8_0)); }, "[dequantize] wants 2 axes, not shape (32,)"},
      {[&] { rms_norm(x, leaf(Shape{4}), 1e-5f); }, "[rms_norm] weight (4,) does not match the last axis of (2, 5)"},
      {[&] { rms_norm(leaf(Shape{}), leaf(Shape{4}), 0); },
       "[rms_norm] weight (4,) does not match the last axis of ()"},
      {[&] { silu(ids); }, "[silu] does not take i32 of shape (2,) (only f32, f16, bf16, f64)"},
  });
}

TEST(Rules, RopeNamesTheShapes) {
  const Tensor x = leaf(Shape{3, 2, 8});
  const Tensor positions = leaf(Shape{3}, DType::i32);
  expect_refusals({
      {[&] {
         rope(leaf(Shape{3, 8}), positions, leaf(Shape{4}), {});
       },
       "[rope] wants 3 axes, not shape (3, 8)"},
      {[&] { rope(x, leaf(Shape{2}, DType::i32), leaf(Shape{4}), {}); }, "[rope] (2,) positions for 3 tokens"},
      {[&] { rope(x, leaf(Shape{3}), leaf(Shape{4}), {}); }, "[rope] does not take f32 of shape (3,) (only i32)"},
      {[&] { rope(x, positions, leaf(Shape{5}), {}); }, "[rope] 5 frequencies do not fit heads of 8 elements"},
      {[&] { rope(x, positions, leaf(Shape{0}), {}); }, "[rope] 0 frequencies do not fit heads of 8 elements"},
      {[&] { rope(x, positions, positions, {}); }, "[rope] does not take i32 of shape (3,) (only f32)"},
  });
}

TEST(Rules, TheCacheAndThePlacesMustFit) {
  const Tensor kv = leaf(Shape{4, 2, 32});
  const Tensor q = leaf(Shape{4, 6, 32});
  const TokenPositions four = places(4);
  expect_refusals({
      {[&] {
         kv_write(cache(), leaf(Shape{4, 3, 32}), kv, four);
       },
       "[kv_write] keys (4, 3, 32) and values (4, 2, 32) do not fit a cache of (3, 2, 32, 16)"},
      {[&] { kv_write(cache(), kv, kv, places(3)); }, "[kv_write] positions (3,) and sequence (3,) for 4 tokens"},
      {[&] {
         kv_write(with(cache(), &KvLayer::keys, leaf(Shape{3, 2, 32, 16}, DType::f64)), kv, kv, four);
       },
       "[kv_write] does not take f64 of shape (3, 2, 32, 16) (only f32, bf16, f16, i8, u8)"},
      {[&] {
         kv_write(with(cache(), &KvLayer::keys, leaf(Shape{3, 2, 32, 16})), kv, kv, four);
       },
       "[kv_write] does not take f16 of shape (3, 2, 16, 32) (only f32)"},
      {[&] {
         kv_write(with(cache(), &KvLayer::values, leaf(Shape{3, 2, 32, 16}, DType::f16)), kv, kv, four);
       },
       "[kv_write] a cache with keys f16 (3, 2, 32, 16) wants values (3, 2, 16, 32), not (3, 2, 32, 16)"},
      {[&] { kv_write(with(cache(DType::i8), &KvLayer::key_scales, Tensor()), kv, kv, four); },
       "[kv_write] a cache with keys i8 (3, 2, 32, 16) wants key scales (3, 2, 1, 16), not none"},
      {[&] {
         kv_write(with(cache(), &KvLayer::key_scales, leaf(Shape{3, 2, 1, 16}, DType::f16)), kv, kv, four);
       },
       "[kv_write] a cache with keys f16 (3, 2, 32, 16) has no scales"},
      {[&] {
         kv_write(cache(), kv, kv, with(four, &TokenPositions::page_table, leaf(Shape{1, 0}, DType::i32)));
       },
       "[kv_write] the page table (1, 0) has no pages"},
      {[&] { kv_write(cache(), kv, kv, with(four, &TokenPositions::page_table, Tensor())); },
       "[kv_write] an input is not a tensor"},
      {[&] {
         attention(leaf(Shape{4, 5, 32}), cache(), four, {});
       },
       "[attention] queries (4, 5, 32) do not fit a cache of (3, 2, 32, 16)"},
      {[&] {
         attention(leaf(Shape{4, 6, 16}), cache(), four, {});
       },
       "[attention] queries (4, 6, 16) do not fit a cache of (3, 2, 32, 16)"},
      {[&] { attention(q, cache(), places(5), {}); }, "[attention] positions (5,) and sequence (5,) for 4 tokens"},
      {[&] { attention(q, KvLayer{}, four, {}); }, "[attention] an input is not a tensor"},
      {[&] {
         attention(leaf(Shape{4, 32}), cache(), four, {});
       },
       "[attention] wants 3 axes, not shape (4, 32)"},
  });
  const KvLayer odd{.keys = leaf(Shape{1, 1, 24, 16}, DType::i8),
                    .values = leaf(Shape{1, 1, 16, 24}, DType::i8),
                    .key_scales = leaf(Shape{1, 1, 0, 16}, DType::f16),
                    .value_scales = leaf(Shape{1, 1, 16, 0}, DType::f16)};
  const Tensor narrow = leaf(Shape{4, 1, 24});
  expect_refusals({{[&] { kv_write(odd, narrow, narrow, four); },
                    "[kv_write] i8 keys (1, 1, 24, 16) have no whole groups of 32 elements"}});
}

TEST(Rules, BothDevicesAreNamed) {
  const Tensor other = open_device("null")->upload(DType::f32, Shape{2}, nullptr);
  expect_refusals({{[&] { leaf(Shape{2}) + other; }, "[add] inputs are on different devices: null and null"}});
}

}  // namespace
}  // namespace gabbro
