#include "src/tensor/shape.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "src/base/error.h"

namespace gabbro {
namespace {

// Offset of each element of a layout, in row-major order: the independent way to compare views.
std::vector<int64_t> places(const Layout& layout) {
  std::vector<int64_t> result;
  const int64_t count = layout.shape.elements();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    int64_t place = layout.offset;
    for (int axis = layout.shape.rank() - 1; axis >= 0; --axis) {
      place += rest % layout.shape[axis] * layout.strides[static_cast<size_t>(axis)];
      rest /= layout.shape[axis];
    }
    result.push_back(place);
  }
  return result;
}

TEST(Shape, RefusesWhatCannotBe) {
  EXPECT_THROW((Shape{2, -1}), Error);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW((Shape{std::numeric_limits<int64_t>::max(), 3}), Error);
  EXPECT_THROW((Shape{0, std::numeric_limits<int64_t>::max(), 8}), Error);  // empty, but its other axes overflow
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{3, 0, 5}).elements(), 0);
}

TEST(Shape, NamesTheAxisThatIsOutOfRange) {
  const Shape shape{2, 5};
  EXPECT_EQ(shape.axis("softmax", -1), 1);
  try {
    shape.axis("softmax", 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[softmax] axis 3 is out of range for shape (2, 5)");
  }
}

TEST(Shape, PrintsAsPythonDoes) {
  EXPECT_EQ(Shape{}.to_string(), "()");
  EXPECT_EQ(Shape{7}.to_string(), "(7,)");
  EXPECT_EQ((Shape{2, 5}).to_string(), "(2, 5)");
}

TEST(Layout, PermutedElementsAreThoseOfTheTransposedIndex) {
  const Layout x = Layout::contiguous(Shape{2, 3, 4});
  const int axes[] = {2, 0, 1};
  const std::vector<int64_t> y = places(permute_layout(x, axes));
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t k = 0; k < 3; ++k) EXPECT_EQ(y[static_cast<size_t>((i * 2 + j) * 3 + k)], j * 12 + k * 4 + i);
    }
  }
}

TEST(Layout, SlicesStartWhereTheyShouldAndStep) {
  const Layout y = slice_layout(Layout::contiguous(Shape{3, 10}), 1, 1, 4, 2);
  EXPECT_EQ(places(y), (std::vector<int64_t>{1, 3, 5, 7, 11, 13, 15, 17, 21, 23, 25, 27}));
  EXPECT_FALSE(y.is_contiguous());
}

TEST(Layout, BroadcastAxesDoNotMove) {
  const Layout y = broadcast_layout(Layout::contiguous(Shape{3, 1}), Shape{2, 3, 2});
  EXPECT_EQ(places(y), (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
}

TEST(Layout, ReshapeKeepsTheOrderOfElementsOrSaysThatItCannot) {
  const Layout x = Layout::contiguous(Shape{4, 6});
  const int swap[] = {1, 0};
  const Layout transposed = permute_layout(x, swap);
  EXPECT_FALSE(reshape_layout(transposed, Shape{24}).has_value());
  const auto split = reshape_layout(transposed, Shape{2, 3, 4});  // splitting an axis needs no copy
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(places(*split), places(transposed));
  const Layout rows = slice_layout(x, 1, 0, 3, 1);
  EXPECT_FALSE(reshape_layout(rows, Shape{12}).has_value());
  const auto kept = reshape_layout(rows, Shape{2, 2, 3, 1});
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(places(*kept), places(rows));
}

TEST(Layout, ReshapeDoesNotTrustTheStrideOfAnAxisOfOne) {
  const Layout rows = slice_layout(Layout::contiguous(Shape{2, 1, 7}), 2, 0, 3, 1);  // strides (7, 7, 1)
  EXPECT_FALSE(reshape_layout(rows, Shape{6}).has_value());
}

TEST(Layout, EmptyLayoutsReshapeWhateverTheirStrides) {
  const Layout empty = slice_layout(Layout::contiguous(Shape{2, 0, 6}), 2, 0, 3, 2);
  EXPECT_TRUE(empty.is_contiguous());
  for (const Shape& shape : {Shape{0}, Shape{0, 9}, Shape{3, 0, 2}}) EXPECT_TRUE(reshape_layout(empty, shape));
}

// Lengths whose product is `elements`.
Shape any_shape(int64_t elements) {
  std::vector<int64_t> lengths;
  while (lengths.size() < 4) {
    const int64_t length = *rc::gen::inRange<int64_t>(1, 5);
    if (elements % length != 0) continue;
    lengths.push_back(length);
    elements /= length;
  }
  lengths.push_back(elements);
  return Shape(lengths);
}

RC_GTEST_PROP(Layout, AReshapedViewShowsTheSameElementsInTheSameOrder, ()) {
  Layout layout = Layout::contiguous(any_shape(*rc::gen::element(1, 12, 24, 36, 48)));
  for (int step = 0; step < 3; ++step) {
    std::vector<int> axes(static_cast<size_t>(layout.shape.rank()));
    std::iota(axes.begin(), axes.end(), 0);
    std::swap(axes[*rc::gen::inRange<size_t>(0, axes.size())], axes[*rc::gen::inRange<size_t>(0, axes.size())]);
    layout = permute_layout(layout, axes);
    const int axis = *rc::gen::inRange(0, layout.shape.rank());
    const int64_t start = *rc::gen::inRange<int64_t>(0, layout.shape[axis]);
    const int64_t stride = *rc::gen::inRange<int64_t>(1, 3);
    const int64_t most = (layout.shape[axis] - start + stride - 1) / stride;
    layout = slice_layout(layout, axis, start, *rc::gen::inRange<int64_t>(0, most + 1), stride);
    const auto reshaped = reshape_layout(layout, any_shape(layout.shape.elements()));
    if (!reshaped) continue;
    RC_ASSERT(places(*reshaped) == places(layout));
    layout = *reshaped;
  }
}

TEST(Layout, OneElementAxesAreAlwaysContiguous) {
  Layout x = Layout::contiguous(Shape{1, 5, 1});
  x.strides = {99, 1, 77};
  EXPECT_TRUE(x.is_contiguous());
}

TEST(Broadcast, FollowsNumPy) {
  EXPECT_EQ(broadcast_shapes("add", Shape{3, 1}, Shape{2, 1, 4}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes("add", Shape{}, Shape{2}), Shape{2});
  EXPECT_EQ(broadcast_shapes("add", Shape{0}, Shape{1}), Shape{0});
  EXPECT_THROW(broadcast_shapes("add", Shape{2}, Shape{3}), Error);
}

}  // namespace
}  // namespace gabbro
