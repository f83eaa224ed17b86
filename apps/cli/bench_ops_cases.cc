#include "apps/cli/bench_ops_cases.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/cli/bench_files.h"
#include "gabbro/ops/products.h"
#include "src/base/error.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;
using OpInputs = const std::vector<Tensor>&;
using OpOutputs = std::vector<Tensor>;

// How an op of the list is called.
struct OpCall {
  const char* name;
  OpOutputs (*record)(OpInputs x, const OpAttributes& a);
  int indices = -1;   // the input that holds row numbers of input 0
  int positive = -1;  // the input that may not be negative
};

constexpr float kEpsilon = 1e-5f;

Axes axes_of(const OpAttributes& a) { return a.axis ? Axes(*a.axis) : kAllAxes; }

ConvOptions conv_options(const OpAttributes& a) {
  return {.stride = {a.stride}, .padding = {a.padding}, .groups = a.groups};
}

const OpCall kCalls[] = {
    {"matmul", [](OpInputs x, const OpAttributes&) { return OpOutputs{matmul(x[0], x[1])}; }},
    {"linear", [](OpInputs x, const OpAttributes&) { return OpOutputs{linear(x[0], x[1])}; }},
    {"conv1d", [](OpInputs x, const OpAttributes& a) { return OpOutputs{conv1d(x[0], x[1], {}, conv_options(a))}; }},
    {"conv2d", [](OpInputs x, const OpAttributes& a) { return OpOutputs{conv2d(x[0], x[1], {}, conv_options(a))}; }},
    {"conv2d_nhwc",
     [](OpInputs x, const OpAttributes& a) {
       return OpOutputs{conv2d_nhwc(x[0], x[1], {}, {.stride = {a.stride}, .padding = {a.padding}})};
     }},
    {"depthwise_conv2d",
     [](OpInputs x, const OpAttributes& a) {
       ConvOptions options = conv_options(a);
       options.groups = x[0].shape()[1];
       return OpOutputs{conv2d(x[0], x[1], {}, options)};
     }},
    {"conv_transpose2d",
     [](OpInputs x, const OpAttributes& a) { return OpOutputs{conv_transpose2d(x[0], x[1], {}, conv_options(a))}; }},
    {"max_pool2d",
     [](OpInputs x, const OpAttributes& a) {
       return OpOutputs{max_pool2d(x[0], {.kernel = {a.kernel}, .stride = {a.stride}, .padding = {a.padding}})};
     }},
    {"add", [](OpInputs x, const OpAttributes&) { return OpOutputs{x[0] + x[1]}; }},
    {"mul_add", [](OpInputs x, const OpAttributes&) { return OpOutputs{x[0] * x[1] + x[2]}; }},
    {"exp", [](OpInputs x, const OpAttributes&) { return OpOutputs{exp(x[0])}; }},
    {"tanh", [](OpInputs x, const OpAttributes&) { return OpOutputs{tanh(x[0])}; }},
    {"gelu", [](OpInputs x, const OpAttributes&) { return OpOutputs{gelu(x[0])}; }},
    {"silu_mul", [](OpInputs x, const OpAttributes&) { return OpOutputs{silu(x[0]) * x[1]}; }},
    {"where", [](OpInputs x, const OpAttributes&) { return OpOutputs{where(greater(x[0], x[1]), x[0], x[1])}; }},
    {"sum", [](OpInputs x, const OpAttributes& a) { return OpOutputs{sum(x[0], axes_of(a))}; }},
    {"max", [](OpInputs x, const OpAttributes& a) { return OpOutputs{max(x[0], axes_of(a))}; }},
    {"argmax", [](OpInputs x, const OpAttributes& a) { return OpOutputs{argmax(x[0], a.axis)}; }},
    {"var", [](OpInputs x, const OpAttributes& a) { return OpOutputs{var(x[0], axes_of(a))}; }},
    {"cumsum", [](OpInputs x, const OpAttributes& a) { return OpOutputs{cumsum(x[0], a.axis.value_or(-1))}; }},
    {"rms_norm", [](OpInputs x, const OpAttributes&) { return OpOutputs{rms_norm(x[0], x[1], kEpsilon)}; }},
    {"layer_norm", [](OpInputs x, const OpAttributes&) { return OpOutputs{layer_norm(x[0], x[1], x[2], kEpsilon)}; }},
    {"group_norm_nhwc",
     [](OpInputs x, const OpAttributes& a) {
       return OpOutputs{group_norm_nhwc(x[0], a.groups, x[1], x[2], kEpsilon, true)};
     }},
    {"group_norm",
     [](OpInputs x, const OpAttributes& a) { return OpOutputs{group_norm(x[0], a.groups, x[1], x[2], kEpsilon)}; }},
    {.name = "batch_norm",
     .record =
         [](OpInputs x, const OpAttributes&) {
           return OpOutputs{
               batch_norm(x[0], {.mean = x[1], .variance = x[2], .weight = x[3], .bias = x[4], .epsilon = kEpsilon})};
         },
     .positive = 2},
    {"softmax", [](OpInputs x, const OpAttributes& a) { return OpOutputs{softmax(x[0], a.axis.value_or(-1))}; }},
    {"log_softmax",
     [](OpInputs x, const OpAttributes& a) { return OpOutputs{log_softmax(x[0], a.axis.value_or(-1))}; }},
    {"attention",
     [](OpInputs x, const OpAttributes& a) {
       return OpOutputs{scaled_dot_product_attention(x[0], x[1], x[2], {.causal = a.causal})};
     }},
    {.name = "embedding",
     .record = [](OpInputs x, const OpAttributes&) { return OpOutputs{gather(x[0], x[1])}; },
     .indices = 1},
    {"concat",
     [](OpInputs x, const OpAttributes& a) {
       return OpOutputs{concat({x[0], x[1]}, a.axis.value_or(0))};
     }},
    {"add_transposed",
     [](OpInputs x, const OpAttributes&) {
       return OpOutputs{x[0] + permute(x[0], {1, 0})};
     }},
    {"sort", [](OpInputs x, const OpAttributes&) { return OpOutputs{sort(x[0])}; }},
    {"topk",
     [](OpInputs x, const OpAttributes& a) {
       const TopK found = topk(x[0], a.k);
       return OpOutputs{found.values, found.indices};
     }},
};

// The list names no others: a test runs them all.
const OpCall& call_of(const OpCase& op_case) { return *std::ranges::find(kCalls, op_case.op, &OpCall::name); }

OpAttributes read_attributes(const Json& entry) {
  OpAttributes a;
  if (!entry.contains("attributes")) return a;
  const Json& given = entry["attributes"];
  if (given.contains("axis")) a.axis = given["axis"].get<int64_t>();
  a.stride = given.value("stride", a.stride);
  a.padding = given.value("padding", a.padding);
  a.kernel = given.value("kernel", a.kernel);
  a.groups = given.value("groups", a.groups);
  a.k = given.value("k", a.k);
  a.causal = given.value("causal", a.causal);
  return a;
}

std::vector<DType> read_dtypes(const Json& entry) {
  std::vector<DType> dtypes;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const auto is_it = [&](const Json& name) { return name.get<std::string>() == dtype_name(dtype); };
    if (!entry.contains("dtypes") || std::ranges::any_of(entry["dtypes"], is_it)) dtypes.push_back(dtype);
  }
  return dtypes;
}

// As _cases.py makes it.
std::string name_of(const Json& entry, const std::vector<Shape>& inputs) {
  std::string name = entry["op"];
  for (const Shape& shape : inputs) {
    name += ' ';
    for (int axis = 0; axis < shape.rank(); ++axis) name += fmt::format("{}{}", axis > 0 ? "x" : "", shape[axis]);
  }
  if (!entry.contains("attributes")) return name;
  for (const auto& [key, value] : entry["attributes"].items())
    name += value.is_boolean() ? " " + key : fmt::format(" {}={}", key, value.get<int64_t>());
  return name;
}

const Json& case_list() {
  static const Json list = Json::parse(bench_cases());
  return list;
}

}  // namespace

const std::vector<std::string>& op_groups() {
  static const std::vector<std::string> groups = [] {
    std::vector<std::string> found;
    for (const Json& entry : case_list()) {
      const std::string group = entry["group"];
      if (found.empty() || found.back() != group) found.push_back(group);
    }
    return found;
  }();
  return groups;
}

std::vector<OpCase> op_cases(const std::string& size) {
  std::vector<OpCase> cases;
  for (const Json& entry : case_list()) {
    OpCase& one = cases.emplace_back();
    for (const Json& lengths : entry[size]) one.inputs.emplace_back(lengths.get<std::vector<int64_t>>());
    one.group = entry["group"];
    one.op = entry["op"];
    one.name = name_of(entry, one.inputs);
    one.dtypes = read_dtypes(entry);
    one.attributes = read_attributes(entry);
  }
  return cases;
}

std::vector<Tensor> make_op_inputs(const std::shared_ptr<Device>& device, const OpCase& op_case, DType dtype) {
  const OpCall& call = call_of(op_case);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const Shape& shape = op_case.inputs[i];
    const Tensor key = random_key(device, 1, 0, i);
    if (static_cast<int>(i) == call.indices) {
      tensors.push_back(randint(key, 0, op_case.inputs[0][0], shape));
    } else {
      const Tensor x = randn(key, shape);
      tensors.push_back(cast(static_cast<int>(i) == call.positive ? abs(x) : x, dtype));
    }
    eval(std::span(&tensors.back(), 1));  // in sequence: their further memory is shared
  }
  return tensors;
}

std::vector<Tensor> record_op(const OpCase& op_case, const std::vector<Tensor>& inputs) {
  return call_of(op_case).record(inputs, op_case.attributes);
}

}  // namespace gabbro::cli
