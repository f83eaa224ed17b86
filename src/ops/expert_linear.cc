// Products of each token with the weights of the experts that it is routed to (mixtures of experts, Shazeer et al.
// 2017).
#include "gabbro/ops/experts.h"
#include "src/ops/index_rules.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {

// x [T, K], or [T, U, K] with an x for each expert; weight [E·N, K] of any float or block format; ids i32 [T, U]; y [T,
// U, N]. Kernels read the weights of the routed experts alone.
const Op kExpertLinear = {
    .name = "expert_linear",
    .infer =
        [](const Args& a) {
          const int64_t rows = a[1].shape()[0] / a.attributes.integer("experts");
          return result(Shape{a[2].shape()[0], a[2].shape()[1], rows}, DType::f32);
        },
    // The products of all experts, from which the wanted ones are picked.
    .compose =
        [](const Args& a) {
          const int64_t tokens = a[2].shape()[0], used = a[2].shape()[1], depth = a[1].shape()[1];
          const int64_t experts = a.attributes.integer("experts"), rows = a[1].shape()[0] / experts;
          const bool own = a[0].shape().rank() == 3;
          const int64_t count = own ? tokens * used : tokens;
          const Tensor all = linear(reshape(a[0], Shape{count, depth}), a[1]);  // [count, E·N]
          const Tensor outer = broadcast_if_needed(
              reshape(iota(a[0].device(), count, DType::i32), own ? Shape{tokens, used} : Shape{tokens, 1}),
              Shape{tokens, used});
          const Tensor wanted = joined_positions(outer, a[2], experts, index_attributes({"expert_linear"}));  // [T, U]
          const Tensor y = gather(reshape(all, Shape{count * experts, rows}), reshape(wanted, Shape{tokens * used}));
          return std::vector{reshape(y, Shape{tokens, used, rows})};
        },
};

Tensor expert_linear(const Tensor& x, const Tensor& weight, const Tensor& ids, int64_t experts) {
  require_dtype("expert_linear", x, kReal);
  require_rank("expert_linear", weight, 2);
  require_rank("expert_linear", ids, 2);
  const int rank = x.shape().rank();
  if (experts < 1 || weight.shape()[0] % experts != 0) {
    throw bad_input("[expert_linear] weight {} is not of {} experts with rows each", weight.shape().to_string(),
                    experts);
  }
  const bool tokens_fit = rank >= 2 && x.shape()[0] == ids.shape()[0] && (rank == 2 || x.shape()[1] == ids.shape()[1]);
  if (rank > 3 || !tokens_fit)
    throw bad_input("[expert_linear] input {} does not fit ids {}", x.shape().to_string(), ids.shape().to_string());
  if (x.shape()[rank - 1] != weight.shape()[1]) {
    throw bad_input("[expert_linear] input {} does not fit weight {}", x.shape().to_string(),
                    weight.shape().to_string());
  }
  const Tensor experts_of = readable_indices(ids, experts, {"expert_linear"});
  const Tensor y = record(kExpertLinear, {cast(x, DType::f32), weight, experts_of}, {{"experts", experts}});
  return cast(y, x.dtype());
}

}  // namespace gabbro
