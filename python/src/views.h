// Views as Python objects: a write through a tensor changes its base and all views, as in PyTorch.
// Tensors themselves do not change: the objects get new values.
#pragma once

#include "gabbro/nn/module.h"
#include "python/src/bind.h"

namespace gabbro::python {

// For nb::call_policy: the result, or each element of a list or tuple of results, is a view of the first argument.
struct ViewOfFirst {
  static void precall(PyObject**, size_t, nb::detail::cleanup_list*) {}
  static void postcall(PyObject** args, size_t count, nb::handle result);
};

// A tensor whose memory is that of a NumPy array or a tensor of another library: writes go there as well.
void link_memory(nb::handle object, bool is_writable);

// Whether another object shares elements with this one. `place`: the tensor in a Python object, or the member that the
// object stands for.
bool has_relatives(const Tensor& place);
// A tensor that was computed may have its value in memory of another library: a write there leaves its value.
void note_memory(const std::shared_ptr<TensorState>& state);
bool are_relatives(const Tensor& a, const Tensor& b);

// Gives `place` the value, and those that share its elements what they then have. `as_data`: histories stay as they
// are, as for a write under no_grad. Throws bad_input for a tensor that has an element in several positions, and where
// a relative is a leaf that requires a gradient.
void write_to_relatives(const char* op, Tensor& place, const Tensor& value, bool as_data = false);

// The elements of `value` for a computed tensor that had the elements of `before`. Gradients pass on to `before` if it
// was written as data; else they are 0 there.
Tensor with_history_of(const Tensor& before, const Tensor& value, bool passes);

// While it lives, a trace runs: its writes are taken back at the end.
class UndoWrites {
 public:
  UndoWrites();
  ~UndoWrites();
  UndoWrites(const UndoWrites&) = delete;
  UndoWrites& operator=(const UndoWrites&) = delete;

 private:
  void* before_;  // the writes of the trace around this one
};

// Replaces the handle of a place by another one of the same value, with its relatives.
void replace_handle(Tensor& place, const Tensor& handle);

// After the library gave a place another value by itself (an optimizer's step, a loaded state): its relatives follow.
class Followed {
 public:
  explicit Followed(Tensor& place);  // before
  void follow() const;               // after

 private:
  Tensor* place_;
  Tensor before_;  // undefined where there are no relatives
  std::shared_ptr<void> relation_;
};

class FollowedSlots {
 public:
  void add(const std::vector<nn::Slot>& slots);  // before
  void follow() const;                           // after

 private:
  std::vector<Followed> followed_;
};

// The object goes away.
void forget_place(Tensor& place);

}  // namespace gabbro::python
