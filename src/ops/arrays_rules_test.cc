// Results and refusals of creation, shapes, indexing, products and promotion: each message names the op and the
// argument.
#include "gabbro/ops/products.h"
#include "src/ops/ops.h"
#include "src/ops/refusals.h"

namespace gabbro {
namespace {

constexpr int64_t kHuge = int64_t{1} << 47;

TEST(ArrayRules, DtypesMeetAsTheArrayApiSays) {
  using enum DType;
  struct Meeting {
    DType a, b, met;
  };
  for (const auto& [a, b, met] : std::vector<Meeting>{{i8, u8, i16},
                                                      {u8, i16, i16},
                                                      {i16, i32, i32},
                                                      {u8, i64, i64},
                                                      {f16, bf16, f32},
                                                      {f16, f64, f64},
                                                      {i64, f16, f16},
                                                      {boolean, u8, u8},
                                                      {boolean, boolean, boolean},
                                                      {i32, f64, f64}}) {
    EXPECT_EQ(promote(a, b), met) << dtype_name(a) << " and " << dtype_name(b);
    EXPECT_EQ(promote(b, a), met) << dtype_name(b) << " and " << dtype_name(a);
  }
  EXPECT_EQ(promote(f16, Number(2.5)), f16);
  EXPECT_EQ(promote(i8, Number(2)), i8);
  EXPECT_EQ(promote(i8, Number(2.5)), f32);
  EXPECT_EQ(promote(boolean, Number(true)), boolean);
  EXPECT_EQ(promote(boolean, Number(1)), i32);
  EXPECT_EQ(sum(leaf(Shape{3}, u8), kAllAxes).dtype(), i64);
  EXPECT_EQ(mean(leaf(Shape{3}, i64), kAllAxes).dtype(), f32);
  EXPECT_EQ((leaf(Shape{3}, i32) / leaf(Shape{3}, i32)).dtype(), f32);
}

TEST(ArrayRules, CreationNamesItsNumbers) {
  expect_refusals({
      {[&] { arange(device(), 0, 5, 0); }, "[arange] a step of 0"},
      {[&] { arange(device(), 0, 1, 1, DType::boolean); }, "[arange] does not give bool"},
      {[&] { arange(device(), 0.5, 3, 1, DType::i64); }, "[arange] i64 has a whole start, stop and step"},
      {[&] { arange(device(), 0.0, 1e30, 1); }, "[arange] from 0 to 1e+30 in steps of 1 are too many elements"},
      {[&] { arange(device(), 0, NAN, 1); }, "[arange] from 0 to nan in steps of 1 are too many elements"},
      {[&] { linspace(device(), 0, 1, -1); }, "[linspace] -1 elements"},
      {[&] { eye(device(), -1, 2); }, "[eye] a matrix of -1 rows and 2 columns"},
      {[&] { tri(device(), 2, -3); }, "[tri] a matrix of 2 rows and -3 columns"},
      {[&] { full(device(), Shape{2}, 1, DType::q4_0); }, "[full] does not give q4_0"},
      {[&] { iota(device(), 3, DType::q8_0); }, "[iota] does not give q8_0"},
      {[&] {
         zeros(device(), Shape{int64_t{1} << 40, int64_t{1} << 40});
       },
       "shape (1099511627776, 1099511627776): too many elements"},
      {[&] {
         meshgrid({leaf(Shape{2, 2})});
       },
       "[meshgrid] wants vectors, not shape (2, 2)"},
  });
  EXPECT_EQ(arange(device(), 0, 5).shape(), Shape{5});
  EXPECT_EQ(arange(device(), 0, 5, 2).shape(), Shape{3});
  EXPECT_EQ(arange(device(), 0, 5, 0.5).dtype(), DType::f32);
}

TEST(ArrayRules, ShapesNameTheAxes) {
  const Tensor x = leaf(Shape{2, 1, 5});
  expect_refusals({
      {[&] { squeeze(x, 0); }, "[squeeze] axis 0 of shape (2, 1, 5) has not length 1"},
      {[&] { squeeze(x, 3); }, "[squeeze] axis 3 is out of range for shape (2, 1, 5)"},
      {[&] { expand_dims(x, 4); }, "[expand_dims] axis 4 is out of range for shape (1, 1, 1, 1)"},
      {[&] {
         moveaxis(x, {0}, {1, 2});
       },
       "[moveaxis] 1 axes to 2 places of shape (2, 1, 5)"},
      {[&] {
         moveaxis(x, {0, 0}, {1, 2});
       },
       "[moveaxis] axis 0 is named twice for shape (2, 1, 5)"},
      {[&] { swapaxes(x, 0, 3); }, "[swapaxes] axis 3 is out of range for shape (2, 1, 5)"},
      {[&] { matrix_transpose(leaf(Shape{3})); }, "[matrix_transpose] shape (3,) has no two axes"},
      {[&] { flatten(x, 2, 0); }, "[flatten] axis 2 is behind axis 0"},
      {[&] {
         broadcast_arrays({x, leaf(Shape{4})});
       },
       "[broadcast_arrays] shapes (2, 1, 5) and (4,) cannot be broadcast together"},
      {[&] { split(x, 2, 2); }, "[split] axis 2 of shape (2, 1, 5) has no 2 parts of equal length"},
      {[&] { split(x, 0, 0); }, "[split] axis 0 of shape (2, 1, 5) has no 0 parts of equal length"},
      {[&] {
         split(leaf(Shape{0, 2}), int64_t{1} << 62, 0);
       },
       "[split] axis 0 of shape (0, 2) has no 4611686018427387904 parts of equal length"},
      {[&] { stack({}); }, "[stack] nothing to stack"},
      {[&] {
         stack({x, leaf(Shape{2, 5})});
       },
       "[stack] shapes (2, 1, 5) and (2, 5) differ"},
      {[&] {
         pad(x, {{1, 1}, {0, 0}});
       },
       "[pad] 2 widths for shape (2, 1, 5)"},
      {[&] {
         pad(x, {{-1, 1}});
       },
       "[pad] widths of -1 and 1"},
      {[&] {
         pad(x, {{0, 0}, {0, 0}, {5, 0}}, PadMode::kReflect);
       },
       "[pad] 5 and 0 elements cannot be mirrored along axis 2 of shape (2, 1, 5)"},
      {[&] {
         pad(leaf(Shape{0}), {{1, 0}}, PadMode::kEdge);
       },
       "[pad] axis 0 of shape (0,) has no edge"},
      {[&] { repeat(x, -1, 0); }, "[repeat] shape (2, 1, 5) cannot be there -1 times"},
      {[&] { repeat(x, int64_t{1} << 62, 2); },
       "[repeat] shape (2, 1, 5) times 4611686018427387904: too many elements"},
      {[&] { tile(x, {kHuge}); }, "shape (2, 1, 703687441776640): too many elements"},
      {[&] {
         roll(x, {1, 2}, {0, 1, 2});
       },
       "[roll] 2 shifts for 3 axes of shape (2, 1, 5)"},
      {[&] {
         flip(x, {0, -3});
       },
       "[flip] axis -3 is named twice for shape (2, 1, 5)"},
  });
  EXPECT_EQ(expand_dims(x, {0, -1}).shape(), (Shape{1, 2, 1, 5, 1}));
  EXPECT_EQ(moveaxis(x, {0}, {-1}).shape(), (Shape{1, 5, 2}));
}

TEST(ArrayRules, IndexingNamesTheIndicesAndTheShapes) {
  const Tensor x = leaf(Shape{2, 5}), i = leaf(Shape{3}, DType::i32), mask = leaf(Shape{2, 4}, DType::boolean);
  expect_refusals({
      {[&] { take(x, x); }, "[take] does not take f32 of shape (2, 5) (only i8, u8, i16, i32, i64)"},
      {[&] {
         take(leaf(Shape{0, 5}), i);
       },
       "[take] axis 0 of shape (0, 5) has no elements"},
      {[&] { take(x, i, 2); }, "[take] axis 2 is out of range for shape (2, 5)"},
      {[&] { put_along_axis(x, i, i); },
       "[put_along_axis] indices (3,) and values (3,) do not fit x (2, 5) along axis -1"},
      {[&] { index(x, {int64_t{2}}); }, "[index] index 2 is outside axis 0 of shape (2, 5)"},
      {[&] {
         index(x, {Slice{}, int64_t{-6}});
       },
       "[index] index -6 is outside axis 1 of shape (2, 5)"},
      {[&] {
         index(x, {int64_t{0}, int64_t{0}, int64_t{0}});
       },
       "[index] 3 indices and 0 ellipses for shape (2, 5)"},
      {[&] {
         index(x, {Ellipsis{}, Ellipsis{}});
       },
       "[index] 0 indices and 2 ellipses for shape (2, 5)"},
      {[&] { index(x, {Slice{.step = 0}}); }, "[index] a step of 0"},
      {[&] { index(x, {mask}); }, "[index] mask (2, 4) does not fit shape (2, 5)"},
      {[&] { index(x, {x}); }, "[index] does not take f32 of shape (2, 5) (only i8, u8, i16, i32, i64)"},
      {[&] {
         index(x, {i, leaf(Shape{2}, DType::i32)});
       },
       "[broadcast_arrays] shapes (3,) and (2,) cannot be broadcast together"},
      {[&] { nonzero(leaf(Shape{})); }, "[nonzero] a scalar has no axis"},
  });
  EXPECT_EQ(index(x, {NewAxis{}, Ellipsis{}, Slice{.step = -2}}).shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(index(x, {Slice{.start = INT64_MIN, .stop = INT64_MAX, .step = INT64_MAX}}).shape(), (Shape{1, 5}));
  EXPECT_EQ(index(x, {Slice{.step = INT64_MIN}}).shape(), (Shape{1, 5}));
}

TEST(ArrayRules, ProductsNameTheShapes) {
  const Tensor x = leaf(Shape{2, 5}), y = leaf(Shape{3, 5}), flags = leaf(Shape{2, 2}, DType::boolean);
  expect_refusals({
      {[&] { matmul(flags, flags); }, "[matmul] does not take bool of shape (2, 2) (only f32, i32)"},
      {[&] { matmul(leaf(Shape{}), x); }, "[matmul] shapes () and (2, 5) do not fit"},
      {[&] {
         einsum("ij", {x, y});
       },
       "[einsum] 'ij' has 1 terms for 2 operands"},
      {[&] { einsum("ijk", {x}); }, "[einsum] 'ijk' has 3 letters for shape (2, 5)"},
      {[&] {
         einsum("ij,ij->i", {x, y});
       },
       "[einsum] 'ij,ij->i' has axes of length 2 and 3 by one letter, the latter in shape (3, 5)"},
      {[&] { einsum("i1->i", {x}); }, "[einsum] 'i1->i' has '1', expected letters and '...'"},
      {[&] { einsum("ij->k", {x}); }, "[einsum] 'ij->k' gives 'k', which no term has"},
      {[&] { einsum("ij->ii", {x}); }, "[einsum] 'ij->ii' gives 'i' twice"},
      {[&] { einsum("ii", {x}); }, "[einsum] 'ii' has a diagonal of shape (2, 5)"},
      {[&] { einsum("...j->j", {x}); }, "[einsum] '...j->j' does not give the axes of '...'"},
      {[&] { einsum("i.j", {x}); }, "[einsum] 'i.j' has '.', expected letters and '...'"},
      {[&] { tensordot(x, y, 1); }, "[tensordot] 1 axes of shape (2, 5) do not fit 1 of (3, 5)"},
      {[&] { tensordot(x, y, 3); }, "[tensordot] 3 axes of shapes (2, 5) and (3, 5)"},
      {[&] { dot(x, y); }, "[dot] shapes (2, 5) and (3, 5) do not fit"},
      {[&] { vecdot(x, y, 1); },
       "[vecdot] axis 1 of shapes (2, 5) and (3, 5): a negative one, along which they are equally long"},
      {[&] { vecdot(x, y); }, "[mul] shapes (2, 5) and (3, 5) cannot be broadcast together"},
      {[&] {
         bilinear(x, x, leaf(Shape{4, 5, 3}));
       },
       "[bilinear] x1 (2, 5) and x2 (2, 5) do not fit weight (4, 5, 3)"},
      {[&] {
         bilinear(x, x, leaf(Shape{4, 5, 5}), x);
       },
       "[bilinear] bias (2, 5) does not match weight (4, 5, 5)"},
      {[&] { scaled_dot_product_attention(x, x, y); },
       "[scaled_dot_product_attention] q (2, 5), k (2, 5) and v (3, 5) do not fit"},
      {[&] {
         scaled_dot_product_attention(leaf(Shape{3, 2, 5}), leaf(Shape{2, 2, 5}), leaf(Shape{2, 2, 5}));
       },
       "[scaled_dot_product_attention] q (3, 2, 5), k (2, 2, 5) and v (2, 2, 5) do not fit"},
      {[&] {
         scaled_dot_product_attention(x, y, y, {.mask = leaf(Shape{4, 3})});
       },
       "[scaled_dot_product_attention] shapes (4, 3) and (2, 3) cannot be broadcast together"},
  });
}

}  // namespace
}  // namespace gabbro
