#include "backends/common/expert_request.h"

#include "backends/common/request.h"

namespace gabbro::abi {

std::optional<ExpertRequest> read_expert_request(const KernelRequest& request, IsWeight is_weight,
                                                 const ExpertForm& form) {
  if (!has_operands(request, form.ids_at() + 1 + form.more, 1)) return std::nullopt;
  const TensorView &x = request.inputs[0], &weight = request.inputs[1], &ids = request.inputs[form.ids_at()],
                   &y = request.outputs[0];
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
  const bool y_fits = form.summed ? has_shape(y, DType::f32, {expert.tokens, expert.rows})
                                  : has_shape(y, DType::f32, {expert.tokens, expert.used, expert.rows});
  if (!y_fits) return std::nullopt;
  for (int m = 1; m <= form.matrices; ++m) {
    if (!is_weight(request.inputs[m], expert.columns) || request.inputs[m].shape[0] != weight.shape[0])
      return std::nullopt;
  }
  return expert;
}

}  // namespace gabbro::abi
