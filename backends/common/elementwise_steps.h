// The fused op `elementwise` (docs/design/fused_ops.md): a list of elementwise ops that use each other's results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/common/request.h"

namespace gabbro::abi {

inline constexpr int kMaxElementwiseInputs = 8;
inline constexpr int kMaxElementwiseOutputs = 4;

inline constexpr int kMaxElementwiseConstants = 16;

// One op, or `const`, which is a number. Numbers of operands name the inputs of the request first and then the steps.
struct ElementwiseStep {
  std::string op;
  DType dtype;  // of its result; f16 and bf16 for casts to them alone
  std::vector<int> operands{};
  double constant = 0;

  bool is_constant() const { return op == "const"; }
  // The constant's element, in the low bytes.
  uint64_t constant_bits() const;
};

struct ElementwiseSteps {
  std::vector<ElementwiseStep> steps;
  std::vector<int> results;  // by output: an input or a step

  DType dtype_of(const KernelRequest& request, int number) const;
};

// A kernel request of one op, with contiguous vectors of `count` elements.
class StepRequest {
 public:
  StepRequest(const char* op, const std::vector<DType>& inputs, DType output, int64_t count);
  StepRequest(const StepRequest&) = delete;  // the request points into it
  StepRequest& operator=(const StepRequest&) = delete;

  operator const KernelRequest&() const { return request_; }

 private:
  std::vector<TensorView> views_;  // the inputs, then the output
  KernelRequest request_;
};

// Nothing if the request does not follow the op's definition: strided inputs of one shape, contiguous outputs of that
// shape, a bounded number of steps that use earlier values, and results of the outputs' dtypes.
std::optional<ElementwiseSteps> read_elementwise(const KernelRequest& request);

}  // namespace gabbro::abi
