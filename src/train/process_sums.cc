#include "src/train/process_sums.h"

#include <algorithm>

#include "src/backend/device.h"
#include "src/base/error.h"
#include "src/ops/grad.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::train {
namespace {

// The sum over the ranks divided by `divisor`, as T.
template <class T>
Tensor summed(mpi::Ranks& ranks, const Tensor& tensor, DType dtype, double divisor, const std::atomic<bool>* cancel) {
  std::vector<T> values = to_host<T>(cast(tensor, dtype));
  ranks.sum(std::span<T>(values), cancel);
  if (divisor != 1)
    for (T& value : values) value /= static_cast<T>(divisor);
  return cast(tensor.device()->upload(dtype, tensor.shape(), values.data()), tensor.dtype());
}

Tensor summed(mpi::Ranks& ranks, const Tensor& tensor, double divisor, const std::atomic<bool>* cancel) {
  if (tensor.dtype() == DType::f64) return summed<double>(ranks, tensor, DType::f64, divisor, cancel);
  return summed<float>(ranks, tensor, DType::f32, divisor, cancel);
}

template <class T>
Tensor of_rank_0(mpi::Ranks& ranks, const Tensor& tensor, const std::atomic<bool>* cancel) {
  std::vector<T> values = to_host<T>(tensor);
  ranks.broadcast(values.data(), values.size() * sizeof(T), 0, cancel);
  return tensor.device()->upload(tensor.dtype(), tensor.shape(), values.data());
}

}  // namespace

void ProcessSums::average(std::span<const Tensor> parameters, std::vector<Tensor>& gradients,
                          const std::atomic<bool>* cancel) {
  if (!is_active_) {
    has_left_out_ = true;
    return;
  }
  const NoGrad no_grad;
  if (has_left_out_) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor before = needs_gradient(parameters[i]) ? gradient_of(parameters[i]) : Tensor();
      if (!before.defined()) continue;
      gradients[i] = gradients[i].defined() ? before + gradients[i] : before;
      clear_gradient(parameters[i]);
    }
    has_left_out_ = false;
  }
  std::vector<float> wanted;  // by parameter: how many ranks have a gradient
  for (const Tensor& gradient : gradients) wanted.push_back(gradient.defined() ? 1.0F : 0.0F);
  ranks_.sum(std::span<float>(wanted), cancel);
  const auto divisor = static_cast<double>(ranks_.size());
  for (size_t i = gradients.size(); i-- > 0;) {
    if (wanted[i] == 0) continue;
    const Tensor& parameter = parameters[i];
    const Tensor own =
        gradients[i].defined() ? gradients[i] : full(parameter.device(), parameter.shape(), 0, parameter.dtype());
    gradients[i] = summed(ranks_, own, divisor, cancel);
  }
}

std::vector<Tensor> ProcessSums::of_first(std::span<const Tensor> tensors, const std::atomic<bool>* cancel) {
  std::vector<Tensor> values;
  for (const Tensor& tensor : tensors) {
    switch (dtype_info(tensor.dtype()).block_bytes) {
      case 1:
        values.push_back(of_rank_0<int8_t>(ranks_, tensor, cancel));
        break;
      case 2:
        values.push_back(of_rank_0<int16_t>(ranks_, tensor, cancel));
        break;
      case 4:
        values.push_back(of_rank_0<int32_t>(ranks_, tensor, cancel));
        break;
      case 8:
        values.push_back(of_rank_0<int64_t>(ranks_, tensor, cancel));
        break;
      default:
        throw bad_input("[broadcast] a {} tensor cannot be sent to other ranks", dtype_name(tensor.dtype()));
    }
  }
  return values;
}

Tensor ProcessSums::sum(const Tensor& tensor, const std::atomic<bool>* cancel) {
  if (!is_floating(tensor.dtype()))
    throw bad_input("[all_reduce] {} is not a floating dtype", dtype_name(tensor.dtype()));
  return summed(ranks_, tensor, 1, cancel);
}

}  // namespace gabbro::train
