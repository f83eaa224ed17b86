// Cases of `bench ops`: ops with the shapes of their inputs. python/gabbro/bench/cases.json lists them, once for the
// program and for `python -m gabbro.bench`; bench_ops_cases.cc has the call of each op.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/device.h"

namespace gabbro::cli {

struct OpAttributes {
  std::optional<int64_t> axis;
  int64_t stride = 1, padding = 0;
  int64_t kernel = 1;  // length of a pooling window along each axis
  int64_t groups = 1;  // of channels
  int64_t k = 1;       // how many of the largest
  bool causal = false;
};

struct OpCase {
  std::string group;  // one of op_groups()
  std::string op;
  std::string name;  // "conv2d 1x64x56x56 64x64x3x3 padding=1"
  std::vector<Shape> inputs;
  std::vector<DType> dtypes;  // that it is measured in
  OpAttributes attributes;
};

// In the order of the list: "matmul", "conv", ...
const std::vector<std::string>& op_groups();

// All cases of a size: "tiny" (for tests, and the simulator), "small" (for CPUs) or "large" (for GPUs).
std::vector<OpCase> op_cases(const std::string& size);

// Tensors with values for the case's inputs: normal numbers, the same ones in each run; never zeros, which some chips
// multiply faster. Throws OutOfMemory.
std::vector<Tensor> make_op_inputs(const std::shared_ptr<Device>& device, const OpCase& op_case, DType dtype);

// Records the op on these inputs; nothing is computed. Throws bad_input where it does not take their dtype.
std::vector<Tensor> record_op(const OpCase& op_case, const std::vector<Tensor>& inputs);

}  // namespace gabbro::cli
