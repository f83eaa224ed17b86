// Common declarations of the extension gabbro._core. Each bind_... adds one topic to the module.
#pragma once

#include <nanobind/nanobind.h>
// Every file includes these casters; else the one definition rule is violated.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/backend/device.h"
#include "src/ops/ops.h"
#include "src/tensor/tensor.h"

namespace gabbro::python {

namespace nb = nanobind;

using TensorClass = nb::class_<Tensor>;

void bind_errors(nb::module_& m);
void bind_dtypes(nb::module_& m);
void bind_devices(nb::module_& m);
TensorClass bind_tensor(nb::module_& m);
void bind_operators(TensorClass& tensor);
void bind_indexing(TensorClass& tensor);
void bind_assignment(TensorClass& tensor);
void bind_exchange(nb::module_& m, TensorClass& tensor);
void bind_run(nb::module_& m, TensorClass& tensor);
void bind_language_models(nb::module_& m);
void bind_text_encoders(nb::module_& m);
void bind_picture_pipelines(nb::module_& m);
void bind_compile(nb::module_& m);
void bind_gradients(nb::module_& m, TensorClass& tensor);

// dtype.cc. A dtype is the object gb.float32; arguments may also be its name, a NumPy dtype, or float, int or bool.
nb::object dtype_object(DType dtype);
const char* dtype_public_name(DType dtype);  // "float32"
DType dtype_argument(nb::handle object);     // throws TypeError
std::optional<DType> optional_dtype(nb::handle object);

// device.cc. A device is gb.Device, its name, or None: the one that set_device chose (and at first, `auto`).
std::shared_ptr<Device> device_argument(nb::handle object);
nb::object device_object(const std::shared_ptr<Device>& device);
void require_this_process(const Device& device);  // throws where the device was opened before a fork

// exchange.cc. Anything that holds numbers, as a tensor: of Python numbers and lists of them, f32, i32 or bool.
enum class Copy { kAlways, kWhereNeeded, kNever };
struct Wanted {
  std::optional<DType> dtype = {};
  std::shared_ptr<Device> device = nullptr;  // null: the object's own, or the default
  Copy copy = Copy::kWhereNeeded;
};
Tensor tensor_of(nb::handle object, const Wanted& wanted = {});
nb::object numpy_array(const Tensor& x);  // read-only, without a copy where the host sees the memory
int tensor_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;

// operand.cc. Numbers, and the other operand of an operator: a tensor, an array, or a number, which is weak in
// promotion (src/ops/promotion.h).
inline bool is_number(nb::handle object) {  // bool is an int
  return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
}
Number number_argument(const char* op, nb::handle object);  // throws TypeError
Tensor operand(const char* op, nb::handle object, const Tensor& like);
std::pair<Tensor, Tensor> operands(const char* op, nb::handle a, nb::handle b);
// x += y and x[i] = y: gives the object `target`, a tensor, another value of the same shape and dtype.
void rebind(const char* op, nb::handle target, const Tensor& value);

// run.cc. Computes them without the GIL; Ctrl-C raises KeyboardInterrupt.
void evaluate(std::span<const Tensor> tensors);
inline void evaluate(const Tensor& tensor) { evaluate(std::span(&tensor, 1)); }

void require_no_trace();  // compile.cc: throws while a function is traced, whose tensors have no values
// run(cancel) without the GIL; it is to throw kInterrupted when *cancel becomes true.
void run_interruptibly(const std::function<void(const std::atomic<bool>* cancel)>& run);
// Values that the library evaluates itself, such as the initial values of a layer, are computed so on this device.
void listen_to_interrupts(Device& device);

// arguments.cc: (2, 3), [2, 3], 6 or an object with __index__, as they come as `shape`, `axis` and the like.
std::vector<int64_t> integers(const char* op, const char* argument, nb::handle object);
Shape shape_argument(const char* op, nb::handle object);
Shape shape_of(const char* op, const std::vector<int64_t>& lengths);
nb::tuple shape_tuple(const Shape& shape);

// indexing.cc: what is between the brackets of x[...], and x[...] of it, with Python's IndexError.
std::vector<Index> index_argument(nb::handle object, const Tensor& x);
Tensor element(const Tensor& x, const std::vector<Index>& indices);

}  // namespace gabbro::python
