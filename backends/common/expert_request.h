// Operands of a request of `expert_linear` (src/ops/expert_linear.cc). Compiled once, for no particular instruction
// set.
#pragma once

#include <optional>

#include "backends/common/linear_request.h"

namespace gabbro::abi {

// y[t, u] = x[t] or x[t, u] · W[ids[t, u]]ᵀ. Inputs are x, the weights [E·N, K] and the ids [T, U].
struct ExpertRequest {
  int64_t tokens = 0;     // T
  int64_t used = 0;       // U, experts of a token
  int64_t experts = 0;    // E
  int64_t rows = 0;       // N, of an expert
  int64_t columns = 0;    // K
  bool own_rows = false;  // x is [T, U, K]

  int64_t slots() const { return tokens * used; }  // products
  int64_t x_rows() const { return own_rows ? slots() : tokens; }
  // Whether slots are grouped by expert: some expert has several.
  bool grouped() const { return tokens > 1 && slots() > experts; }
  int64_t row_of(int64_t slot) const { return own_rows ? slot : slot / used; }  // of x
  // Experts whose weights are read at most; how many is not known before the ids are.
  int64_t most_read() const { return experts < slots() ? experts : slots(); }
};

// Inputs of the ops of experts: x, the weights of `matrices` of the same shape, the ids, and `more` inputs.
struct ExpertForm {
  int matrices = 1;
  int more = 0;
  bool summed = false;  // the result is [T, N]
  int ids_at() const { return 1 + matrices; }
};

// Nothing where the request makes no sense, or a weight is refused. The inputs behind the ids are not looked at.
std::optional<ExpertRequest> read_expert_request(const KernelRequest& request, IsWeight is_weight,
                                                 const ExpertForm& form = {});

}  // namespace gabbro::abi
