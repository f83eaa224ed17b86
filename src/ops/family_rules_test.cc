// What the ops of the kernel families refuse: each message names the op and what does not fit.
#include "src/ops/ops.h"
#include "src/ops/refusals.h"

namespace gabbro {
namespace {

TEST(FamilyRules, SortingNamesTheAxisAndTheShape) {
  const Tensor x = leaf(Shape{2, 5});
  expect_refusals({
      {[&] { sort(x, 2); }, "[sort] axis 2 is out of range for shape (2, 5)"},
      {[&] { argsort(leaf(Shape{})); }, "[argsort] a scalar has no axis"},
      {[&] { sort(leaf(Shape{3}, DType::boolean)); },
       "[sort] does not take bool of shape (3,) (only f32, f16, bf16, i32)"},
      {[&] { topk(x, 6); }, "[topk] 6 elements are not along axis -1 of shape (2, 5)"},
      {[&] { topk(x, -1, 0); }, "[topk] -1 elements are not along axis 0 of shape (2, 5)"},
      {[&] { topk(Tensor(), 1); }, "[topk] an input is not a tensor"},
  });
  EXPECT_EQ(topk(x, 2, 0).indices.shape(), (Shape{2, 5}));
  EXPECT_EQ(topk(x, 0).values.shape(), (Shape{2, 0}));
}

}  // namespace
}  // namespace gabbro
