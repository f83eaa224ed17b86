// Views: ops that look at the same storage in another way.
#include <algorithm>
#include <array>

#include "src/ops/gradient_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// The result's shape travels as attributes, since no input tells it.
constexpr const char* kLengths[] = {"0", "1", "2", "3", "4", "5"};

Attributes shape_attributes(const Shape& shape) {
  Attributes attributes;
  attributes.set("rank", int64_t{shape.rank()});
  for (int axis = 0; axis < shape.rank(); ++axis) attributes.set(kLengths[axis], shape[axis]);
  return attributes;
}

std::vector<int64_t> lengths_of(const Attributes& attributes) {
  std::vector<int64_t> lengths(static_cast<size_t>(attributes.integer("rank")));
  for (size_t axis = 0; axis < lengths.size(); ++axis) lengths[axis] = attributes.integer(kLengths[axis]);
  return lengths;
}

Shape shape_of(const Attributes& attributes) {
  std::array<int64_t, Shape::kMaxRank> lengths{};
  const auto rank = static_cast<size_t>(attributes.integer("rank"));
  for (size_t axis = 0; axis < rank; ++axis) lengths[axis] = attributes.integer(kLengths[axis]);
  return Shape(std::span<const int64_t>(lengths.data(), rank));
}

// Inverse of `slice`: the part at its position in a tensor of this shape, zeros elsewhere.
Tensor among_zeros(const Tensor& part, const Shape& shape, int axis, int64_t start, int64_t step) {
  const auto at = static_cast<size_t>(axis);
  std::vector<int64_t> lengths(shape.lengths().begin(), shape.lengths().end());
  const auto zeros = [&](int64_t count, size_t along, std::vector<int64_t> like) {
    like[along] = count;
    return filled_like(part, Shape(like), 0);
  };
  Tensor spread = part;
  int64_t length = part.shape()[axis];
  if (step > 1 && length > 0) {  // step - 1 zeros behind each element, but for the last
    std::vector<int64_t> column(part.shape().lengths().begin(), part.shape().lengths().end());
    column.insert(column.begin() + axis + 1, 1);
    const Tensor wide = concat({reshape(part, Shape(column)), zeros(step - 1, at + 1, column)}, axis + 1);
    lengths[at] = length * step;
    length = (length - 1) * step + 1;
    spread = slice(reshape(wide, Shape(lengths)), axis, 0, length);
  }
  std::vector<Tensor> parts;
  if (start > 0) parts.push_back(zeros(start, at, lengths));
  parts.push_back(spread);
  if (start + length < shape[axis]) parts.push_back(zeros(shape[axis] - start - length, at, lengths));
  return parts.size() == 1 ? spread : concat(parts, axis);
}

}  // namespace

const Op kReshape = {
    .name = "reshape",
    .infer = [](const Args& a) { return result(shape_of(a.attributes), a[0].dtype()); },
    .view = [](const Layout& input, const Shape& shape, const Attributes&) { return reshape_layout(input, shape); },
    .gradient = [](const GradientArgs& a) -> Gradients { return {reshape(a.gradients[0], a[0].shape())}; },
};

const Op kBroadcast = {
    .name = "broadcast_to",
    .infer = [](const Args& a) { return result(shape_of(a.attributes), a[0].dtype()); },
    .view = [](const Layout& input, const Shape& shape, const Attributes&) -> std::optional<Layout> {
      return broadcast_layout(input, shape);
    },
    .gradient = [](const GradientArgs& a) -> Gradients { return {sum_to(a.gradients[0], a[0].shape())}; },
};

const Op kPermute = {
    .name = "permute",
    .infer =
        [](const Args& a) {
          std::vector<int64_t> lengths = lengths_of(a.attributes);
          for (int64_t& axis : lengths) axis = a[0].shape()[static_cast<int>(axis)];
          return result(Shape(lengths), a[0].dtype());
        },
    .view = [](const Layout& input, const Shape&, const Attributes& attributes) -> std::optional<Layout> {
      const std::vector<int64_t> axes = lengths_of(attributes);
      return permute_layout(input, std::vector<int>(axes.begin(), axes.end()));
    },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const std::vector<int64_t> axes = lengths_of(a.attributes);
      std::vector<int> back(axes.size());
      for (size_t i = 0; i < axes.size(); ++i) back[static_cast<size_t>(axes[i])] = static_cast<int>(i);
      return {permute(a.gradients[0], back)};
    },
};

const Op kSlice = {
    .name = "slice",
    .infer =
        [](const Args& a) {
          std::vector<int64_t> lengths(a[0].shape().lengths().begin(), a[0].shape().lengths().end());
          lengths[static_cast<size_t>(a.attributes.integer("axis"))] = a.attributes.integer("length");
          return result(Shape(lengths), a[0].dtype());
        },
    .view = [](const Layout& input, const Shape&, const Attributes& attributes) -> std::optional<Layout> {
      return slice_layout(input, static_cast<int>(attributes.integer("axis")), attributes.integer("start"),
                          attributes.integer("length"), attributes.integer("step"));
    },
    .gradient = [](const GradientArgs& a) -> Gradients {
      const auto axis = static_cast<int>(a.attributes.integer("axis"));
      return {
          among_zeros(a.gradients[0], a[0].shape(), axis, a.attributes.integer("start"), a.attributes.integer("step"))};
    },
};

// The first input, when the others have been computed.
const Op kIdentity = {
    .name = "identity",
    .infer = [](const Args& a) { return std::vector{a[0].spec()}; },
    .view = [](const Layout& input, const Shape&, const Attributes&) -> std::optional<Layout> { return input; },
    .gradient =
        [](const GradientArgs& a) {
          Gradients gradients(a.size());
          gradients[0] = a.gradients[0];
          return gradients;
        },
};

Tensor reshape(const Tensor& x, const Shape& shape) {
  require_plain("reshape", x);
  if (shape.elements() != x.shape().elements()) {
    throw bad_input("[reshape] shape {} does not have the elements of {}", shape.to_string(), x.shape().to_string());
  }
  return record(kReshape, {x}, shape_attributes(shape));
}

Tensor permute(const Tensor& x, std::vector<int> axes) {
  require_plain("permute", x);
  std::vector<int> sorted = axes;
  std::ranges::sort(sorted);
  bool valid = static_cast<int>(axes.size()) == x.shape().rank();
  for (size_t i = 0; valid && i < sorted.size(); ++i) valid = sorted[i] == static_cast<int>(i);
  if (!valid)
    throw bad_input("[permute] the axes are not a permutation of the axes of shape {}", x.shape().to_string());
  Attributes attributes{{"rank", x.shape().rank()}};
  for (size_t i = 0; i < axes.size(); ++i) attributes.set(kLengths[i], int64_t{axes[i]});
  return record(kPermute, {x}, std::move(attributes));
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  require_plain("broadcast_to", x);
  if (!(broadcast_shapes("broadcast_to", x.shape(), shape) == shape)) {
    throw bad_input("[broadcast_to] shape {} cannot be broadcast to {}", x.shape().to_string(), shape.to_string());
  }
  return record(kBroadcast, {x}, shape_attributes(shape));
}

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t length, int64_t step) {
  require_plain("slice", x);
  const int64_t index = x.shape().axis("slice", axis);
  const int64_t available = x.shape()[static_cast<int>(index)];
  const bool fits = start >= 0 && length >= 0 && step >= 1 && start <= available &&
                    (length == 0 || (start < available && length - 1 <= (available - 1 - start) / step));
  if (!fits) {
    throw bad_input("[slice] {} elements from {} in steps of {} are not inside axis {} of shape {}", length, start,
                    step, axis, x.shape().to_string());
  }
  return record(kSlice, {x}, {{"axis", index}, {"start", start}, {"length", length}, {"step", step}});
}

}  // namespace gabbro
