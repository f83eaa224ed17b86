#include "backends/common/expert_request.h"

#include "backends/common/request.h"

namespace gabbro::abi {

std::optional<ExpertRequest> read_expert_request(const KernelRequest& request, IsWeight is_weight) {
  if (!has_operands(request, 3, 1)) return std::nullopt;
  const TensorView &x = request.inputs[0], &weight = request.inputs[1], &ids = request.inputs[2];
  if (weight.rank != 2 || ids.rank != 2 || (x.rank != 2 && x.rank != 3)) return std::nullopt;
  ExpertRequest expert = {.tokens = ids.shape[0],
                          .used = ids.shape[1],
                          .experts = integer_attribute(request, "experts", 0),
                          .columns = weight.shape[1],
                          .own_rows = x.rank == 3};
  if (expert.experts < 1 || weight.shape[0] < 1 || weight.shape[0] % expert.experts != 0 || expert.slots() < 1)
    return std::nullopt;
  expert.rows = weight.shape[0] / expert.experts;
  const bool x_fits = expert.own_rows ? has_shape(x, DType::f32, {expert.tokens, expert.used, expert.columns})
                                      : has_shape(x, DType::f32, {expert.tokens, expert.columns});
  if (!x_fits || !has_shape(ids, DType::i32, {expert.tokens, expert.used})) return std::nullopt;
  if (!has_shape(request.outputs[0], DType::f32, {expert.tokens, expert.used, expert.rows})) return std::nullopt;
  if (!is_weight(weight, expert.columns)) return std::nullopt;
  return expert;
}

}  // namespace gabbro::abi
