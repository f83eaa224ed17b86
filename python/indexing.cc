// x[...]: integers, slices, None and Ellipsis. (Tensors and lists as indices: ops of their own.)
#include "python/bind.h"
#include "src/base/error.h"
#include "src/ops/ops.h"

namespace gabbro::python {
namespace {

// What an index says about one axis of x, or (kNew) about one that only the result has.
struct Step {
  enum class Kind { kAt, kRange, kNew };
  Kind kind;
  int64_t start = 0;
  int64_t length = 1;
  int64_t step = 1;
};

Step at(nb::handle object, const Shape& shape, int axis) {
  const int64_t index = integers("getitem", "an index", object)[0];
  const int64_t length = shape[axis];
  if (index < -length || index >= length) {
    throw nb::index_error(
        fmt::format("[getitem] index {} is out of range for axis {} of shape {}", index, axis, shape.to_string())
            .c_str());
  }
  return {Step::Kind::kAt, index < 0 ? index + length : index};
}

Step range(nb::handle object, const Shape& shape, int axis) {
  Py_ssize_t start = 0, stop = 0, step = 0;
  if (PySlice_Unpack(object.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
  const Py_ssize_t length = PySlice_AdjustIndices(shape[axis], &start, &stop, step);
  if (length == 0) return {Step::Kind::kRange, 0, 0, 1};
  return {Step::Kind::kRange, start, length, length == 1 ? 1 : step};
}

std::vector<Step> parse(nb::handle object, const Shape& shape) {
  const nb::object index = nb::isinstance<nb::tuple>(object) ? nb::borrow(object) : nb::object(nb::make_tuple(object));
  int used = 0, ellipses = 0;
  for (nb::handle part : nb::borrow<nb::tuple>(index)) {
    if (part.is(Py_Ellipsis)) {
      ++ellipses;
    } else if (!part.is_none()) {
      ++used;
    }
  }
  if (ellipses > 1) throw nb::index_error("[getitem] an index has more than one '...'");
  if (used > shape.rank()) {
    throw nb::index_error(
        fmt::format("[getitem] {} indices are too many for shape {}", used, shape.to_string()).c_str());
  }
  std::vector<Step> steps;
  int axis = 0;
  const auto whole = [&](int end) {
    for (; axis < end; ++axis) steps.push_back({Step::Kind::kRange, 0, shape[axis]});
  };
  for (nb::handle part : nb::borrow<nb::tuple>(index)) {
    if (part.is(Py_Ellipsis)) {
      whole(axis + shape.rank() - used);
    } else if (part.is_none()) {
      steps.push_back({Step::Kind::kNew});
    } else if (PySlice_Check(part.ptr())) {
      steps.push_back(range(part, shape, axis++));
    } else if (PyIndex_Check(part.ptr()) && !PyBool_Check(part.ptr())) {
      steps.push_back(at(part, shape, axis++));
    } else {
      throw nb::type_error(
          fmt::format("[getitem] {} is no index: integers, slices, None and '...' are", nb::repr(part).c_str())
              .c_str());
    }
  }
  whole(shape.rank());
  return steps;
}

// The elements along an axis in the opposite order.
Tensor reversed(const Tensor& x, int axis) {
  std::vector<int> axes(static_cast<size_t>(x.shape().rank()));
  for (int i = 0; i < x.shape().rank(); ++i) axes[static_cast<size_t>(i)] = i;
  std::swap(axes.front(), axes[static_cast<size_t>(axis)]);
  const int64_t length = x.shape()[axis];
  const Tensor order = iota(x.device(), length, DType::i32, static_cast<double>(length - 1), -1);
  return permute(gather(permute(x, axes), order), axes);
}

Tensor ranged(const Tensor& x, int axis, const Step& part) {
  if (part.start == 0 && part.step == 1 && part.length == x.shape()[axis]) return x;
  if (part.step > 0) return slice(x, axis, part.start, part.length, part.step);
  const int64_t first = part.start + (part.length - 1) * part.step;
  return reversed(slice(x, axis, first, part.length, -part.step), axis);
}

Tensor get(const Tensor& x, const std::vector<Step>& steps) {
  Tensor result = x;
  std::vector<int64_t> lengths;
  int axis = 0;
  for (const Step& part : steps) {
    if (part.kind != Step::Kind::kAt) lengths.push_back(part.length);
    if (part.kind != Step::Kind::kNew) result = ranged(result, axis++, part);
  }
  const Shape shape(lengths);
  return shape == result.shape() ? result : reshape(result, shape);
}

// x with `values`, of the shape of the ranges, in their places along the axes from `axis` on. Steps are positive.
Tensor placed(const Tensor& x, const Tensor& values, const std::vector<Step>& ranges, int axis) {
  if (axis == x.shape().rank()) return values;
  const Step& part = ranges[static_cast<size_t>(axis)];
  if (part.length == 0) return x;
  std::vector<Tensor> parts;
  int64_t done = 0;
  const auto keep = [&](int64_t end) {
    if (end > done) parts.push_back(slice(x, axis, done, end - done));
  };
  const auto put = [&](int64_t start, int64_t first, int64_t length) {
    keep(start);
    parts.push_back(placed(slice(x, axis, start, length), slice(values, axis, first, length), ranges, axis + 1));
    done = start + length;
  };
  if (part.step == 1) {
    put(part.start, 0, part.length);
  } else {
    for (int64_t i = 0; i < part.length; ++i) put(part.start + i * part.step, i, 1);
  }
  keep(x.shape()[axis]);
  return parts.size() == 1 ? parts.front() : concat(parts, axis);
}

void set(nb::handle self, nb::handle index, nb::handle value) {
  Tensor& x = nb::cast<Tensor&>(self);
  const std::vector<Step> steps = parse(index, x.shape());
  std::vector<Step> ranges;
  std::vector<int64_t> lengths, kept;
  for (const Step& part : steps) {
    if (part.kind != Step::Kind::kAt) kept.push_back(part.length);
    if (part.kind == Step::Kind::kNew) continue;
    ranges.push_back(part);
    lengths.push_back(part.length);
  }
  Tensor values = cast(operand("setitem", value, x), x.dtype());
  const Shape wanted(kept);
  if (!(broadcast_shapes("setitem", values.shape(), wanted) == wanted)) {
    throw bad_input("[setitem] a value of shape {} does not fit in {}", values.shape().to_string(), wanted.to_string());
  }
  if (wanted.elements() == 0) return;
  values = reshape(broadcast_to(values, wanted), Shape(lengths));
  for (size_t axis = 0; axis < ranges.size(); ++axis) {
    Step& part = ranges[axis];
    if (part.step > 0) continue;
    values = reversed(values, static_cast<int>(axis));
    part.start += (part.length - 1) * part.step;
    part.step = -part.step;
  }
  x = placed(x, values, ranges, 0);
}

}  // namespace

void bind_indexing(TensorClass& tensor) {
  tensor
      .def(
          "__getitem__", [](const Tensor& x, nb::handle index) { return get(x, parse(index, x.shape())); },
          nb::arg().none(), nb::sig("def __getitem__(self, index: Index, /) -> Tensor"))
      .def("__setitem__", set, nb::arg().none(), nb::arg(),
           nb::sig("def __setitem__(self, index: Index, value: Operand, /) -> None"))
      .def(
          "__iter__",
          [](const Tensor& x) {
            if (x.shape().rank() == 0) throw nb::type_error("a tensor of shape () has no rows to iterate over");
            nb::list rows;
            for (int64_t i = 0; i < x.shape()[0]; ++i) rows.append(get(x, parse(nb::int_(i), x.shape())));
            return nb::iter(rows);
          },
          nb::sig("def __iter__(self) -> Iterator[Tensor]"));
}

}  // namespace gabbro::python
