#include "backends/common/linear_request.h"

#include <string_view>

#include "backends/common/request.h"

namespace gabbro::abi {
namespace {

constexpr int kMostMatrices = 8;

// A contiguous f32 tensor of `rows` rows, whatever its leading axes.
bool is_rows(const TensorView& view, int64_t rows, int64_t columns) {
  return view.dtype == DType::f32 && is_contiguous(view) && view.rank >= 1 && view.shape[view.rank - 1] == columns &&
         elements(view) == rows * columns;
}

std::optional<LinearOptions> read_options(const KernelRequest& request) {
  if (std::string_view(request.op) == "linear") return LinearOptions{.bias = request.input_count == 3};
  const int64_t count = integer_attribute(request, "n", 1), epilogue = integer_attribute(request, "epilogue", 0);
  if (count < 1 || count > kMostMatrices || epilogue < 0 || epilogue > 2) return std::nullopt;
  if ((epilogue == 1 && count != 1) || (epilogue == 2 && count != 2)) return std::nullopt;
  return LinearOptions{.count = static_cast<int>(count),
                       .bias = integer_attribute(request, "bias", 0) != 0,
                       .norm = integer_attribute(request, "norm", 0) != 0,
                       .epsilon = static_cast<float>(real_attribute(request, "epsilon", 0)),
                       .epilogue = static_cast<Epilogue>(epilogue)};
}

bool operands_fit(const KernelRequest& request, const LinearOptions& options, IsWeight is_weight) {
  const bool silu = options.epilogue == Epilogue::kSiluMul, add = options.epilogue == Epilogue::kAdd;
  if (!has_operands(request, options.residual_at() + (add ? 1 : 0), silu ? 1 : options.count)) return false;
  const TensorView& x = request.inputs[0];
  if (x.rank < 1 || elements(x) < 1) return false;
  const int64_t columns = x.shape[x.rank - 1], tokens = elements(x) / columns;
  if (!is_rows(x, tokens, columns)) return false;
  const int64_t first_rows = request.inputs[1].shape[0];
  for (int m = 0; m < options.count; ++m) {
    const TensorView& weight = request.inputs[1 + m];
    if (!is_weight(weight, columns)) return false;
    const int64_t rows = weight.shape[0];
    if (options.bias && !has_shape(request.inputs[options.bias_at(m)], DType::f32, {rows})) return false;
    if (silu && rows != first_rows) return false;
    if ((!silu || m == 0) && !is_rows(request.outputs[m], tokens, rows)) return false;
  }
  if (options.norm && !has_shape(request.inputs[options.norm_at()], DType::f32, {columns})) return false;
  return !add || is_rows(request.inputs[options.residual_at()], tokens, first_rows);
}

}  // namespace

std::optional<LinearOptions> read_linear_request(const KernelRequest& request, IsWeight is_weight) {
  const std::optional<LinearOptions> options = read_options(request);
  if (!options || !operands_fit(request, *options, is_weight)) return std::nullopt;
  return options;
}

}  // namespace gabbro::abi
