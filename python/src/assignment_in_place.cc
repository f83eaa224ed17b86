// x[i] = value without a plan, for loops that set one element or row at a time: the first assignment copies x into
// separate memory, later ones write there as long as nothing else can see it.
#include <algorithm>
#include <array>
#include <cstring>

#include "python/src/assignment.h"
#include "python/src/views.h"
#include "src/graph/history.h"

namespace gabbro::python {
namespace {

// An axis of the elements that an assignment writes, in bytes of x and of the values.
struct Loop {
  int64_t count, x_step, value_step;
};

struct Target {
  std::array<Loop, Shape::kMaxRank> loops;
  int rank = 0;
  int64_t offset = 0;  // bytes
};

// The storages that were made here, the last ones: all their elements belong to one tensor, and to no NumPy array or
// file. Guarded by the GIL.
class OwnStorages {
 public:
  bool contain(const std::shared_ptr<void>& storage) const {
    return std::ranges::any_of(known_, [&](const std::weak_ptr<void>& own) {
      return !own.owner_before(storage) && !storage.owner_before(own);
    });
  }
  void add(const std::shared_ptr<void>& storage) { known_[next_++ % known_.size()] = storage; }

 private:
  std::array<std::weak_ptr<void>, 16> known_;
  size_t next_ = 0;
};

// Integers and slices within x, one for each axis from the first one on; false for anything else.
bool read_target(nb::handle object, const Layout& layout, int64_t element, Target& target) {
  PyObject* const tuple = object.ptr();
  const bool several = PyTuple_CheckExact(tuple) != 0;
  const Py_ssize_t parts = several ? NB_TUPLE_GET_SIZE(tuple) : 1;
  if (parts > layout.shape.rank()) return false;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    const int64_t length = layout.shape[axis], step = layout.strides[static_cast<size_t>(axis)] * element;
    PyObject* const part = axis >= parts ? nullptr : several ? NB_TUPLE_GET_ITEM(tuple, axis) : tuple;
    if (part == nullptr) {
      target.loops[static_cast<size_t>(target.rank++)] = {length, step, 0};
    } else if (PyLong_CheckExact(part)) {
      int overflow = 0;
      int64_t i = PyLong_AsLongLongAndOverflow(part, &overflow);
      if (i < 0) i += length;
      if (overflow != 0 || i < 0 || i >= length) return false;
      target.offset += i * step;
    } else if (PySlice_Check(part)) {
      Py_ssize_t start = 0, stop = 0, stride = 0;
      if (PySlice_Unpack(part, &start, &stop, &stride) != 0) throw nb::python_error();
      const Py_ssize_t count = PySlice_AdjustIndices(length, &start, &stop, stride);
      target.offset += start * step;
      target.loops[static_cast<size_t>(target.rank++)] = {count, stride * step, 0};
    } else {
      return false;
    }
  }
  return true;
}

// Steps over the values, which broadcast to the target; false where they do not.
bool read_values(const Layout& layout, int64_t element, Target& target) {
  const int more = target.rank - layout.shape.rank();
  if (more < 0) return false;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    Loop& loop = target.loops[static_cast<size_t>(axis + more)];
    const int64_t length = layout.shape[axis];
    if (length != 1 && length != loop.count) return false;
    loop.value_step = length == 1 ? 0 : layout.strides[static_cast<size_t>(axis)] * element;
  }
  return true;
}

void write(const Target& target, int axis, size_t element, std::byte* x, const std::byte* values) {
  if (axis == target.rank) {
    std::memcpy(x, values, element);
    return;
  }
  const Loop& loop = target.loops[static_cast<size_t>(axis)];
  const auto width = static_cast<int64_t>(element);
  if (axis == target.rank - 1 && loop.x_step == width && loop.value_step == width) {
    std::memcpy(x, values, static_cast<size_t>(loop.count) * element);
    return;
  }
  for (int64_t i = 0; i < loop.count; ++i, x += loop.x_step, values += loop.value_step)
    write(target, axis + 1, element, x, values);
}

std::byte* first_element(const TensorState& state, size_t element) {
  return static_cast<std::byte*>(state.storage.get()) + state.layout.offset * static_cast<int64_t>(element);
}

bool is_plain_value(const Tensor& x) { return x.has_value() && x.state().history == nullptr && !x.spec().packed; }

}  // namespace

void copy_elements(const TensorState& from, const TensorState& to) {
  const size_t element = dtype_bytes(to.spec.dtype, 1);
  const auto width = static_cast<int64_t>(element);
  Target all;
  for (int axis = 0; axis < to.spec.shape.rank(); ++axis) {
    const auto at = static_cast<size_t>(axis);
    all.loops[static_cast<size_t>(all.rank++)] = {to.spec.shape[axis], to.layout.strides[at] * width,
                                                  from.layout.strides[at] * width};
  }
  write(all, 0, element, first_element(to, element), first_element(from, element));
}

Tensor copy_in_memory(const Tensor& x) {
  auto state = std::make_shared<TensorState>();
  state->spec = x.spec();
  state->device = x.device();
  state->layout = Layout::contiguous(x.shape());
  const size_t bytes = dtype_bytes(x.dtype(), static_cast<size_t>(x.shape().elements()));
  state->storage = x.device()->allocate(std::max<size_t>(bytes, 1));
  copy_elements(x.state(), *state);
  return Tensor(std::move(state));
}

bool assign_in_place(nb::handle self, nb::handle object, nb::handle value) {
  static auto& own = *new OwnStorages;  // lives as long as the process
  Tensor& x = nb::cast<Tensor&>(self);
  if (!x.defined() || !x.device()->host_accessible() || x.spec().packed || is_quantized(x.dtype()) || is_tracing() ||
      x.state().history != nullptr || has_relatives(x))
    return false;
  const bool number = is_number(value);
  if (!number && !nb::isinstance<Tensor>(value)) return false;
  const Tensor values = number ? cast(operand("setitem", value, x), x.dtype()) : nb::cast<const Tensor&>(value);
  if (!values.defined() || values.dtype() != x.dtype() || values.device() != x.device()) return false;
  if (number && !values.has_value()) evaluate(values);
  if (!is_plain_value(values)) return false;
  const auto element = dtype_bytes(x.dtype(), 1);
  const auto width = static_cast<int64_t>(element);
  Target target;
  const auto fits = [&](const Layout& layout) {
    target = {};
    return read_target(object, layout, width, target) && read_values(values.state().layout, width, target);
  };
  const auto is_own = [&] {
    return x.has_value() && own.contain(x.state().storage) && x.state().storage.use_count() == 1;
  };
  if (!x.sole_owner() || !is_own()) {
    if (!fits(Layout::contiguous(x.shape()))) return false;
    require_this_process(*x.device());
    evaluate(x);
    x = copy_in_memory(x);
    own.add(x.state().storage);
  }
  if (!fits(x.state().layout)) return false;
  write(target, 0, element, first_element(x.state(), element) + target.offset, first_element(values.state(), element));
  return true;
}

}  // namespace gabbro::python
