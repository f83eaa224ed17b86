#include "tests/ops/op_calls.h"

#include <map>

#include "src/graph/eval.h"
#include "src/ops/ops.h"

namespace gabbro {

using nlohmann::json;

namespace {

// Input `at`, where the case has it.
Tensor optional(const Inputs& inputs, size_t at) { return at < inputs.size() ? inputs[at] : Tensor(); }

BatchNorm batch_norm_of(const Inputs& i) {
  return {.mean = i[1], .variance = i[2], .weight = optional(i, 3), .bias = optional(i, 4)};
}

// One number, or one for each axis; `otherwise` where the case does not say.
std::vector<int64_t> numbers(const json& a, const char* name, std::vector<int64_t> otherwise) {
  if (!a.contains(name)) return otherwise;
  return a.at(name).is_array() ? a.at(name).get<std::vector<int64_t>>()
                               : std::vector<int64_t>{a.at(name).get<int64_t>()};
}

ConvOptions conv_options(const json& a) {
  return {.stride = numbers(a, "stride", {1}),
          .padding = numbers(a, "padding", {0}),
          .dilation = numbers(a, "dilation", {1}),
          .groups = a.value("groups", int64_t{1})};
}

PoolOptions pool_options(const json& a) {
  return {.kernel = numbers(a, "kernel", {}),
          .stride = numbers(a, "stride", {}),
          .padding = numbers(a, "padding", {0}),
          .dilation = numbers(a, "dilation", {1}),
          .counts_padding = a.value("counts_padding", true)};
}

Reduce reduce_of(const json& a) {
  const std::string name = a.at("reduce");
  return name == "none" ? Reduce::kNone : name == "mean" ? Reduce::kMean : Reduce::kSum;
}

// The bits of f32 numbers, so that fixtures can ask for exactly these.
Tensor as_bits(const Tensor& x) {
  const std::vector<float> values = to_host<float>(x);
  return x.device()->upload(DType::i32, x.shape(), values.data());
}

Tensor random_op(const std::string& op, const std::shared_ptr<Device>& device, const json& a) {
  const auto number = [&](const char* name) {
    return a.at(name)[0].get<uint64_t>() | a.at(name)[1].get<uint64_t>() << 32;
  };
  const Tensor key = random_key(device, number("seed"), number("offset"), number("stream"));
  const Shape shape(a.at("shape").get<std::vector<int64_t>>());
  if (op == "random_bits") return random_bits(key, shape);
  if (op == "rand_as_bits") return as_bits(rand(key, shape));
  if (op == "randn_as_bits") return as_bits(randn(key, shape));
  if (op == "randn") return randn(key, shape);
  if (op == "randint") return randint(key, a.at("low"), a.at("high"), shape);
  throw std::out_of_range("no random op " + op);
}

}  // namespace

Tensor family_op(const std::string& op, const std::shared_ptr<Device>& device, const Inputs& inputs,
                 const json& attributes) {
  if (attributes.contains("seed")) return random_op(op, device, attributes);
  using OpCall = Tensor (*)(const Inputs& inputs, const json& attributes);
  static const std::map<std::string, OpCall> kOps = {
      {"sort", [](const Inputs& i, const json& a) { return sort(i[0], a.at("axis"), a.at("descending")); }},
      {"argsort", [](const Inputs& i, const json& a) { return argsort(i[0], a.at("axis"), a.at("descending")); }},
      {"topk",
       [](const Inputs& i, const json& a) { return topk(i[0], a.at("k"), a.at("axis"), a.at("largest")).values; }},
      {"topk_indices",
       [](const Inputs& i, const json& a) { return topk(i[0], a.at("k"), a.at("axis"), a.at("largest")).indices; }},
      {"layer_norm",
       [](const Inputs& i, const json&) { return layer_norm(i[0], optional(i, 1), optional(i, 2), 1e-5f); }},
      {"group_norm",
       [](const Inputs& i, const json& a) {
         return group_norm(i[0], a.at("groups"), optional(i, 1), optional(i, 2), 1e-5f);
       }},
      {"batch_norm", [](const Inputs& i, const json&) { return batch_norm(i[0], batch_norm_of(i)); }},
      {"batch_norm_training",
       [](const Inputs& i, const json&) { return batch_norm_training(i[0], batch_norm_of(i), 0.25f).y; }},
      {"batch_norm_running_mean",
       [](const Inputs& i, const json&) { return batch_norm_training(i[0], batch_norm_of(i), 0.25f).running_mean; }},
      {"batch_norm_running_variance",
       [](const Inputs& i, const json&) {
         return batch_norm_training(i[0], batch_norm_of(i), 0.25f).running_variance;
       }},
      {"log_softmax", [](const Inputs& i, const json&) { return log_softmax(i[0]); }},
      {"min", [](const Inputs& i, const json&) { return min(i[0], -1, kKeepDims); }},
      {"prod", [](const Inputs& i, const json&) { return prod(i[0], -1, kKeepDims); }},
      {"argmin", [](const Inputs& i, const json&) { return argmin(i[0], -1, kKeepDims); }},
      {"var", [](const Inputs& i, const json& a) { return var(i[0], -1, a.at("correction"), kKeepDims); }},
      {"cumsum", [](const Inputs& i, const json& a) { return cumsum(i[0], a.at("axis")); }},
      {"conv1d", [](const Inputs& i, const json& a) { return conv1d(i[0], i[1], optional(i, 2), conv_options(a)); }},
      {"conv2d", [](const Inputs& i, const json& a) { return conv2d(i[0], i[1], optional(i, 2), conv_options(a)); }},
      {"conv3d", [](const Inputs& i, const json& a) { return conv3d(i[0], i[1], optional(i, 2), conv_options(a)); }},
      {"conv_transpose2d",
       [](const Inputs& i, const json& a) {
         return conv_transpose2d(i[0], i[1], optional(i, 2), conv_options(a), numbers(a, "output_padding", {0}));
       }},
      {"im2col",
       [](const Inputs& i, const json& a) { return im2col(i[0], numbers(a, "kernel", {}), conv_options(a)); }},
      {"max_pool1d", [](const Inputs& i, const json& a) { return max_pool1d(i[0], pool_options(a)); }},
      {"max_pool2d", [](const Inputs& i, const json& a) { return max_pool2d(i[0], pool_options(a)); }},
      {"max_pool3d", [](const Inputs& i, const json& a) { return max_pool3d(i[0], pool_options(a)); }},
      {"avg_pool1d", [](const Inputs& i, const json& a) { return avg_pool1d(i[0], pool_options(a)); }},
      {"avg_pool2d", [](const Inputs& i, const json& a) { return avg_pool2d(i[0], pool_options(a)); }},
      {"avg_pool3d", [](const Inputs& i, const json& a) { return avg_pool3d(i[0], pool_options(a)); }},
      {"adaptive_avg_pool2d",
       [](const Inputs& i, const json& a) { return adaptive_avg_pool2d(i[0], a.at("height"), a.at("width")); }},
      {"upsample_nearest2d",
       [](const Inputs& i, const json& a) { return upsample_nearest2d(i[0], a.at("height"), a.at("width")); }},
      {"upsample_bilinear2d",
       [](const Inputs& i, const json& a) {
         return upsample_bilinear2d(i[0], a.at("height"), a.at("width"), a.at("align_corners"));
       }},
      {"floor", [](const Inputs& i, const json&) { return floor(i[0]); }},
      {"erf", [](const Inputs& i, const json&) { return erf(i[0]); }},
      {"relu", [](const Inputs& i, const json&) { return relu(i[0]); }},
      {"gelu", [](const Inputs& i, const json&) { return gelu(i[0]); }},
      {"gelu_tanh", [](const Inputs& i, const json&) { return gelu(i[0], true); }},
      {"eq", [](const Inputs& i, const json&) { return equal(i[0], i[1]); }},
      {"ne", [](const Inputs& i, const json&) { return not_equal(i[0], i[1]); }},
      {"gt", [](const Inputs& i, const json&) { return greater(i[0], i[1]); }},
      {"ge", [](const Inputs& i, const json&) { return greater_equal(i[0], i[1]); }},
      {"le", [](const Inputs& i, const json&) { return less_equal(i[0], i[1]); }},
      {"lt", [](const Inputs& i, const json&) { return less(i[0], i[1]); }},
      {"pow", [](const Inputs& i, const json&) { return pow(i[0], i[1]); }},
      {"logical_or", [](const Inputs& i, const json&) { return logical_or(i[0], i[1]); }},
      {"logical_not", [](const Inputs& i, const json&) { return logical_not(i[0]); }},
      {"clamp",
       [](const Inputs& i, const json& a) {
         return i.size() == 3 ? clamp(i[0], i[1], i[2])
                              : clamp(i[0], a.at("low").get<double>(), a.at("high").get<double>());
       }},
      {"take_along_axis", [](const Inputs& i, const json& a) { return take_along_axis(i[0], i[1], a.at("axis")); }},
      {"scatter_add", [](const Inputs& i, const json& a) { return scatter_add(i[0], i[1], i[2], a.at("axis")); }},
      {"index_add", [](const Inputs& i, const json&) { return index_add(i[0], i[1], i[2]); }},
      {"tril", [](const Inputs& i, const json& a) { return tril(i[0], a.at("diagonal")); }},
      {"triu", [](const Inputs& i, const json& a) { return triu(i[0], a.at("diagonal")); }},
      {"mse_loss", [](const Inputs& i, const json& a) { return mse_loss(i[0], i[1], reduce_of(a)); }},
      {"l1_loss", [](const Inputs& i, const json& a) { return l1_loss(i[0], i[1], reduce_of(a)); }},
      {"bce_loss", [](const Inputs& i, const json& a) { return bce_loss(i[0], i[1], reduce_of(a)); }},
      {"kl_div", [](const Inputs& i, const json& a) { return kl_div(i[0], i[1], reduce_of(a)); }},
      {"nll_loss", [](const Inputs& i, const json& a) { return nll_loss(i[0], i[1], reduce_of(a)); }},
      {"cross_entropy", [](const Inputs& i, const json& a) { return cross_entropy(i[0], i[1], reduce_of(a)); }},
  };
  return kOps.at(op)(inputs, attributes);
}

DType dtype_of(const std::string& name) {
  for (int type = 0; type < kDTypeCount; ++type) {
    if (dtype_name(static_cast<DType>(type)) == name) return static_cast<DType>(type);
  }
  throw std::out_of_range("no dtype " + name);
}

}  // namespace gabbro
