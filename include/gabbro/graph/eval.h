// Evaluation: computing lazy tensors and reading them on the host. Declared here for the ops that read values; src/plan
// has the definitions.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "gabbro/error.h"
#include "gabbro/tensor/tensor.h"

#pragma GCC visibility push(default)
namespace gabbro {

// Computes the tensors (all on one device); afterward they have values. Plans are cached by the graph's structure.
// Intermediates live in the arena and are gone afterward, except values that a training step needs again.
void eval(std::span<const Tensor> tensors, const std::atomic<bool>* cancel = nullptr);

// The elements in row-major order, after eval. T is the dtype's C++ type, or an integer of its size for the bits:
// 2-byte integers for f16 and bf16, uint8_t for bool. Throws bad_input "[to_host] ..." for other sizes, and for floats
// of integers.
template <class T>
[[gnu::visibility("default")]] std::vector<T> to_host(const Tensor& tensor);
// The only element. Throws bad_input as above, and where there are more or none.
template <class T>
T item(const Tensor& tensor) {
  if (tensor.shape().elements() != 1)
    throw Error(ErrorCode::kBadInput, "[item] a tensor of shape " + tensor.shape().to_string() + " is not one number");
  return to_host<T>(tensor)[0];
}

// Copies x to another device, after eval; returns x itself if it is there already. Throws for packed tensors.
Tensor to_device(const Tensor& x, const DevicePointer& device);

// A tensor whose contents the host may replace in place: the inputs of compiled functions, and states.
void overwrite(const Tensor& tensor, const void* host, size_t bytes);

}  // namespace gabbro
#pragma GCC visibility pop
