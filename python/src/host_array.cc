#include "python/src/host_array.h"

#include <cstring>

#include "python/src/fork.h"
#include "src/backend/registry.h"
#include "src/base/input_errors.h"
#include "src/graph/node.h"

namespace gabbro::python {

using nb::dlpack::dtype_code;

std::optional<DLPackType> dlpack_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return DLPackType{dtype_code::Float, 32};
    case DType::f16:
      return DLPackType{dtype_code::Float, 16};
    case DType::bf16:
      return DLPackType{dtype_code::Bfloat, 16};
    case DType::f64:
      return DLPackType{dtype_code::Float, 64};
    case DType::i8:
      return DLPackType{dtype_code::Int, 8};
    case DType::u8:
      return DLPackType{dtype_code::UInt, 8};
    case DType::i16:
      return DLPackType{dtype_code::Int, 16};
    case DType::i32:
      return DLPackType{dtype_code::Int, 32};
    case DType::i64:
      return DLPackType{dtype_code::Int, 64};
    case DType::boolean:
      return DLPackType{dtype_code::Bool, 8};
    default:
      return std::nullopt;  // block formats
  }
}

namespace {

DType dtype_from(const nb::dlpack::dtype& type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto known = dlpack_type(static_cast<DType>(i));
    if (known && static_cast<uint8_t>(known->code) == type.code && known->bits == type.bits && type.lanes == 1)
      return static_cast<DType>(i);
  }
  throw nb::type_error(fmt::format("no dtype of Gabbro has elements of {} bits of DLPack's kind {} (unsigned integers "
                                   "of more than 8 bits, complex numbers and objects are not supported)",
                                   type.bits, type.code)
                           .c_str());
}

// Layout of a host array. No offset: data() is the first element.
Layout layout_of(const HostArray& array) {
  if (array.ndim() > static_cast<size_t>(Shape::kMaxRank))
    throw bad_input("[asarray] an array of {} axes: no tensor has more than {}", array.ndim(), Shape::kMaxRank);
  Layout layout{.shape = Shape(std::span(array.shape_ptr(), array.ndim()))};
  for (size_t axis = 0; axis < array.ndim(); ++axis) layout.strides[axis] = array.stride(axis);
  return layout;
}

// The elements in row-major order.
void pack(const std::byte* source, const Layout& layout, size_t element, int axis, std::byte*& target) {
  if (axis == layout.shape.rank()) {
    std::memcpy(target, source, element);
    target += element;
    return;
  }
  const int64_t stride = layout.strides[static_cast<size_t>(axis)] * static_cast<int64_t>(element);
  if (axis == layout.shape.rank() - 1 && stride == static_cast<int64_t>(element)) {
    const size_t bytes = static_cast<size_t>(layout.shape[axis]) * element;
    std::memcpy(target, source, bytes);
    target += bytes;
    return;
  }
  for (int64_t i = 0; i < layout.shape[axis]; ++i, source += stride) pack(source, layout, element, axis + 1, target);
}

// Whether kernels may read the array in place.
bool can_alias(const HostArray& array, const Layout& layout, size_t element) {
  if (reinterpret_cast<uintptr_t>(array.data()) % element != 0) return false;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    if (layout.strides[static_cast<size_t>(axis)] < 0) return false;
  }
  return layout.shape.elements() > 0;
}

Tensor aliased(const HostArray& array, DType dtype, const Layout& layout, const std::shared_ptr<Device>& device) {
  auto state = std::make_shared<TensorState>();
  state->spec = {.shape = layout.shape, .dtype = dtype};
  state->device = device;
  state->layout = layout;
  // The last handle may go in any thread.
  state->storage = std::shared_ptr<void>(const_cast<void*>(array.data()), [owner = HostArray(array)](void*) mutable {
    if (!Py_IsInitialized()) {
      new HostArray(std::move(owner));  // the interpreter has gone, and its memory goes with the process
      return;
    }
    const WithGil gil;
    owner = HostArray();
  });
  return Tensor(std::move(state));
}

}  // namespace

Tensor from_array(const HostArray& array, const Wanted& wanted) {
  const DType dtype = dtype_from(array.dtype());
  const size_t element = dtype_info(dtype).block_bytes;
  const Layout layout = layout_of(array);
  const std::shared_ptr<Device> device = wanted.device != nullptr ? wanted.device : device_argument(nb::none());
  if (wanted.copy != Copy::kAlways && device->host_accessible() && can_alias(array, layout, element))
    return aliased(array, dtype, layout, device);
  if (wanted.copy == Copy::kNever)
    throw bad_input("[asarray] an array of shape {} cannot be used on {} without a copy", layout.shape.to_string(),
                    device->facts().id);
  const size_t bytes = static_cast<size_t>(layout.shape.elements()) * element;
  if (layout.is_contiguous()) return device->upload(dtype, layout.shape, array.data());
  std::vector<std::byte> packed(bytes);
  std::byte* target = packed.data();
  if (bytes > 0) pack(static_cast<const std::byte*>(array.data()), layout, element, 0, target);
  return device->upload(dtype, layout.shape, packed.data());
}

}  // namespace gabbro::python
