// Arguments that the ops of the kernel families refuse: each message names the op and the argument.
#include "src/ops/ops.h"
#include "src/ops/refusals.h"

namespace gabbro {
namespace {

TEST(FamilyRules, SortingNamesTheAxisAndTheShape) {
  const Tensor x = leaf(Shape{2, 5});
  expect_refusals({
      {[&] { sort(x, 2); }, "[sort] axis 2 is out of range for shape (2, 5)"},
      {[&] { argsort(leaf(Shape{})); }, "[argsort] a scalar has no axis"},
      {[&] { topk(x, 6); }, "[topk] 6 elements are not along axis -1 of shape (2, 5)"},
      {[&] { topk(x, -1, 0); }, "[topk] -1 elements are not along axis 0 of shape (2, 5)"},
      {[&] { topk(Tensor(), 1); }, "[topk] an input is not a tensor"},
  });
  EXPECT_EQ(topk(x, 2, 0).indices.shape(), (Shape{2, 5}));
  EXPECT_EQ(topk(x, 0).values.shape(), (Shape{2, 0}));
}

TEST(FamilyRules, NormalizationsNameTheParametersAndTheShape) {
  const Tensor x = leaf(Shape{2, 6, 5}), six = leaf(Shape{6}), five = leaf(Shape{5}), none;
  expect_refusals({
      {[&] { layer_norm(x, six, none, 1e-5f); },
       "[layer_norm] a parameter of shape (6,) where (5,) is needed for x (2, 6, 5)"},
      {[&] { layer_norm(x, five, six, 1e-5f); },
       "[layer_norm] a parameter of shape (6,) where (5,) is needed for x (2, 6, 5)"},
      {[&] { layer_norm(five, x, none, 1e-5f); }, "[layer_norm] 3 axes cannot be normalized in shape (5,)"},
      {[&] { layer_norm(leaf(Shape{}), none, none, 1e-5f); }, "[layer_norm] 1 axes cannot be normalized in shape ()"},
      {[&] { layer_norm(leaf(Shape{5}, DType::i32), none, none, 1e-5f); },
       "[layer_norm] does not take i32 of shape (5,) (only f32, f16, bf16)"},
      {[&] { layer_norm(x, leaf(Shape{5}, DType::f16), none, 1e-5f); },
       "[layer_norm] a parameter is f16, and x f32 (2, 6, 5)"},
      {[&] { group_norm(x, 4, none, none, 1e-5f); },
       "[group_norm] 4 groups do not divide the channels of shape (2, 6, 5)"},
      {[&] { group_norm(x, 0, none, none, 1e-5f); },
       "[group_norm] 0 groups do not divide the channels of shape (2, 6, 5)"},
      {[&] { group_norm(five, 1, none, none, 1e-5f); }, "[group_norm] wants x [N, C, ...], not shape (5,)"},
      {[&] { group_norm(x, 2, none, five, 1e-5f); },
       "[group_norm] a parameter of shape (5,) where (6,) is needed for x (2, 6, 5)"},
      {[&] { batch_norm(x, {.mean = six}); }, "[batch_norm] an input is not a tensor"},
      {[&] { batch_norm(x, {.mean = six, .variance = five}); },
       "[batch_norm] a parameter of shape (5,) where (6,) is needed for x (2, 6, 5)"},
      {[&] {
         batch_norm_training(leaf(Shape{1, 6, 1}), {.mean = six, .variance = six}, 0.1f);
       },
       "[batch_norm] one value per channel has no variance to train with: x (1, 6, 1)"},
  });
}

TEST(FamilyRules, ReductionsNameTheShape) {
  const Tensor flags = leaf(Shape{2, 5}, DType::boolean), ints = leaf(Shape{2, 5}, DType::i32);
  expect_refusals({
      {[&] {
         prod(flags, {0, 1, -2});
       },
       "[prod] axis -2 is named twice for shape (2, 5)"},
      {[&] {
         min(leaf(Shape{0, 3}), 0);
       },
       "[min] nothing to choose from in shape (0, 3)"},
      {[&] { argmin(flags, -3); }, "[argmin] axis -3 is out of range for shape (2, 5)"},
      {[&] { var(ints, 5); }, "[var] axis 5 is out of range for shape (2, 5)"},
      {[&] { std(leaf(Shape{}), 0); }, "[std] axis 0 is out of range for shape ()"},
      {[&] {
         logsumexp(leaf(Shape{4, 32}, DType::q8_0), 0);
       },
       "[logsumexp] does not take a q8_0 matrix (4, 32): only linear, embedding and dequantize do"},
      {[&] { any(Tensor(), kAllAxes); }, "[any] an input is not a tensor"},
      {[&] { cumsum(ints, 2); }, "[cumsum] axis 2 is out of range for shape (2, 5)"},
      {[&] { log_softmax(ints); }, "[log_softmax] does not take i32 of shape (2, 5) (only f32, f16, bf16, f64)"},
      {[&] { log_softmax(leaf(Shape{})); }, "[log_softmax] axis -1 is out of range for shape ()"},
  });
}

TEST(FamilyRules, RandomNumbersNeedAKeyAndARange) {
  const Tensor key = random_key(device(), 1);
  expect_refusals({
      {[&] { rand(leaf(Shape{5}, DType::i32), Shape{2}); }, "[rand] a key has shape (6,), not (5,)"},
      {[&] { randn(leaf(Shape{6}), Shape{2}); }, "[randn] does not take f32 of shape (6,) (only i32)"},
      {[&] { randint(key, 3, 3, Shape{2}); }, "[randint] no i32 is in [3, 3)"},
      {[&] { randint(key, 0, (int64_t{1} << 31) + 1, Shape{2}); }, "[randint] no i32 is in [0, 2147483649)"},
  });
  EXPECT_EQ(randint(key, 0, 5, Shape{2, 3}).shape(), (Shape{2, 3}));
}

TEST(FamilyRules, ConvolutionsNameTheWeightsAndTheImages) {
  const Tensor x = leaf(Shape{2, 6, 5, 7}), w = leaf(Shape{4, 3, 3, 3}), none;
  expect_refusals({
      {[&] { conv2d(x, w); }, "[conv2d] weight f32 (4, 3, 3, 3) does not fit x f32 (2, 6, 5, 7) in 1 groups"},
      {[&] { conv2d(x, w, none, {.groups = 3}); },
       "[conv2d] weight f32 (4, 3, 3, 3) does not fit x f32 (2, 6, 5, 7) in 3 groups"},
      {[&] {
         conv2d(x, leaf(Shape{4, 6, 3, 3}, DType::f16));
       },
       "[conv2d] weight f16 (4, 6, 3, 3) does not fit x f32 (2, 6, 5, 7) in 1 groups"},
      {[&] {
         conv2d(x, leaf(Shape{4, 6, 3, 0}));
       },
       "[conv2d] weight f32 (4, 6, 3, 0) does not fit x f32 (2, 6, 5, 7) in 1 groups"},
      {[&] { conv1d(x, w); }, "[conv1d] wants 3 axes, not shape (2, 6, 5, 7)"},
      {[&] { conv2d(x, w, leaf(Shape{3}), {.groups = 2}); }, "[conv2d] bias (3,) does not match weight (4, 3, 3, 3)"},
      {[&] { conv2d(x, w, none, {.dilation = {3}, .groups = 2}); },
       "[conv2d] a window of 3 (dilation 3, padding 0) does not fit in 5 elements of x (2, 6, 5, 7)"},
      {[&] { conv2d(x, w, none, {.stride = {0}, .groups = 2}); }, "[conv2d] a stride of 0"},
      {[&] { conv2d(x, w, none, {.padding = {-1}, .groups = 2}); }, "[conv2d] a padding of -1"},
      {[&] { conv2d(x, w, none, {.padding = {int64_t{1} << 40}, .groups = 2}); },
       "[conv2d] a padding of 1099511627776"},
      {[&] {
         conv2d(x, w, none, {.stride = {1, 1, 1}, .groups = 2});
       },
       "[conv2d] 3 numbers for the stride of 2 axes"},
      {[&] { conv_transpose2d(x, w); },
       "[conv_transpose2d] weight f32 (4, 3, 3, 3) does not fit x f32 (2, 6, 5, 7) in 1 groups"},
      {[&] {
         conv_transpose2d(x, leaf(Shape{6, 2, 3, 3}), none, {}, {1});
       },
       "[conv_transpose2d] an output padding of 1 is not less than the stride 1 or the dilation 1"},
      {[&] {
         conv_transpose2d(x, leaf(Shape{6, 2, 1, 1}), none, {.padding = {3}});
       },
       "[conv_transpose2d] nothing is left of x (2, 6, 5, 7)"},
      {[&] {
         im2col(leaf(Shape{2, 3}), {1});
       },
       "[im2col] wants x [N, C, ...], not shape (2, 3)"},
      {[&] {
         im2col(x, {6, 1});
       },
       "[im2col] a window of 6 (dilation 1, padding 0) does not fit in 5 elements of x (2, 6, 5, 7)"},
  });
}

TEST(FamilyRules, PoolingAndResizingNameTheWindowAndTheImages) {
  const Tensor x = leaf(Shape{2, 6, 5, 7});
  expect_refusals({
      {[&] { max_pool2d(x, {}); }, "[max_pool2d] 0 numbers for the kernel of 2 axes"},
      {[&] { max_pool2d(x, {.kernel = {2}, .padding = {2}}); },
       "[max_pool2d] a padding of 2 is more than half of the window of 2 (dilation 1) of x (2, 6, 5, 7)"},
      {[&] { avg_pool2d(x, {.kernel = {8}}); },
       "[avg_pool2d] a window of 8 (dilation 1, padding 0) does not fit in 5 elements of x (2, 6, 5, 7)"},
      {[&] { avg_pool3d(x, {.kernel = {1}}); }, "[avg_pool3d] wants 5 axes, not shape (2, 6, 5, 7)"},
      {[&] {
         max_pool1d(leaf(Shape{1, 1, 4}, DType::i32), {.kernel = {1}});
       },
       "[max_pool1d] does not take i32 of shape (1, 1, 4) (only f32, f16, bf16)"},
      {[&] { adaptive_avg_pool2d(x, 0, 3); }, "[adaptive_avg_pool2d] x (2, 6, 5, 7) cannot have 0 rows of 3"},
      {[&] {
         upsample_nearest2d(leaf(Shape{1, 1, 0, 3}), 2, 2);
       },
       "[upsample_nearest2d] x (1, 1, 0, 3) cannot have 2 rows of 2"},
      {[&] {
         upsample_bilinear2d(leaf(Shape{3, 3}), 2, 2);
       },
       "[upsample_bilinear2d] wants 4 axes, not shape (3, 3)"},
  });
}

TEST(FamilyRules, IndexingNamesTheIndicesAndTheShapes) {
  const Tensor x = leaf(Shape{2, 5}), i = leaf(Shape{2, 3}, DType::i32), values = leaf(Shape{2, 3});
  expect_refusals({
      {[&] { take_along_axis(x, i, 0); }, "[take_along_axis] indices (2, 3) do not fit x (2, 5) along axis 0"},
      {[&] { take_along_axis(x, values); },
       "[take_along_axis] does not take f32 of shape (2, 3) (only i8, u8, i16, i32, i64)"},
      {[&] {
         take_along_axis(leaf(Shape{2, 0}), i);
       },
       "[take_along_axis] x (2, 0) has nothing along axis -1"},
      {[&] { scatter_add(x, i, x); }, "[scatter_add] values (2, 5) for indices (2, 3)"},
      {[&] { scatter_add(x, i, i); }, "[scatter_add] values are i32 (2, 3) and x f32 (2, 5)"},
      {[&] { scatter_add(x, i, values, 2); }, "[scatter_add] axis 2 is out of range for shape (2, 5)"},
      {[&] {
         index_add(x, leaf(Shape{2}, DType::i32), leaf(Shape{3, 5}));
       },
       "[index_add] 2 indices and values (3, 5) do not fit x (2, 5)"},
      {[&] { index_add(x, i, x); }, "[index_add] wants 1 axes, not shape (2, 3)"},
      {[&] { tril(leaf(Shape{3})); }, "[tril] shape (3,) has no two axes"},
      {[&] { triu(Tensor()); }, "[triu] an input is not a tensor"},
  });
}

TEST(FamilyRules, ElementwiseOpsAndLossesNameDtypesAndShapes) {
  const Tensor x = leaf(Shape{2, 5}), ints = leaf(Shape{2, 5}, DType::i32), half = leaf(Shape{2, 5}, DType::f16);
  const Tensor flags = leaf(Shape{2, 5}, DType::boolean), targets = leaf(Shape{2}, DType::i32);
  expect_refusals({
      {[&] { relu(ints); }, "[relu] does not take i32 of shape (2, 5) (only f32, f16, bf16, f64)"},
      {[&] { pow(flags, flags); },
       "[pow] does not take bool of shape (2, 5) (only f32, f16, bf16, f64, i8, u8, i16, i32, i64)"},
      {[&] { equal(x, Tensor()); }, "[eq] an input is not a tensor"},
      {[&] { clamp(x, leaf(Shape{3}), x); }, "[clamp] shapes (2, 5) and (3,) cannot be broadcast together"},
      {[&] { mse_loss(x, half); }, "[mse_loss] x is f32 (2, 5) and the target f16 (2, 5)"},
      {[&] { kl_div(x, leaf(Shape{5})); }, "[kl_div] x is f32 (2, 5) and the target f32 (5,)"},
      {[&] { cross_entropy(x, leaf(Shape{5}, DType::i32)); }, "[cross_entropy] targets (5,) for x (2, 5)"},
      {[&] { nll_loss(leaf(Shape{5}), targets); }, "[nll_loss] wants 2 axes, not shape (5,)"},
      {[&] { nll_loss(x, leaf(Shape{2})); }, "[nll_loss] does not take f32 of shape (2,) (only i8, u8, i16, i32, i64)"},
  });
}

}  // namespace
}  // namespace gabbro
