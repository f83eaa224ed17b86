#include "src/formats/quantized_folders/published.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::published {
namespace {

struct Method {
  std::string_view name;  // quantization_config.quant_method
  void (*add)(const Source& source, std::vector<Matrix>& out);
};
constexpr Method kMethods[] = {
    {"awq", add_awq},
    {"bitsandbytes", add_bitsandbytes},
    {"compressed-tensors", add_compressed_tensors},
    {"fbgemm_fp8", add_fp8},
    {"fp8", add_fp8},
    {"gptq", add_gptq},
    {"modelopt", add_modelopt},
    {"mxfp4", add_mxfp4},
};

}  // namespace

void require_shape(const CheckpointTensor& tensor, const std::vector<std::string_view>& types,
                   const std::vector<int64_t>& shape) {
  if (std::ranges::find(types, tensor.format) == types.end()) {
    throw bad_input("{}: tensor {} is {}, its quantization method asks for {}", tensor.file->path(), quote(tensor.name),
                    tensor.format, fmt::join(types, " or "));
  }
  const bool fits =
      std::ranges::equal(tensor.shape, shape, [](int64_t a, int64_t b) { return b < 0 ? a > 0 : a == b; });
  if (fits) return;
  throw bad_input("{}: tensor {} has shape ({}), its quantization method asks for ({})", tensor.file->path(),
                  quote(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
}

const CheckpointTensor& Source::require(const std::string& name, const CheckpointTensor& of) const {
  if (const CheckpointTensor* found = find(name)) return *found;
  throw bad_input("{}: tensor {} is missing, which {} needs", of.file->path(), quote(name), quote(of.name));
}

const CheckpointTensor& Source::require(const std::string& name, const CheckpointTensor& of,
                                        const std::vector<std::string_view>& types, std::vector<int64_t> shape) const {
  const CheckpointTensor& found = require(name, of);
  require_shape(found, types, shape);
  return found;
}

std::string without_suffix(std::string_view name, std::string_view suffix) {
  return name.ends_with(suffix) ? std::string(name.substr(0, name.size() - suffix.size())) : std::string();
}

namespace {

void add_quantized(const Source& source, std::vector<Matrix>& matrices) {
  const Metadata& config = source.config();
  constexpr std::string_view kMethod = "quantization_config.quant_method", kBits = "quantization_config.bits";
  std::string_view method;
  if (config.has(kMethod)) {
    method = config.require_string(kMethod);
  } else if (config.has(kBits)) {
    method = "gptq";  // quantize_config.json of AutoGPTQ names none
  } else {
    return;
  }
  const auto* known = std::ranges::find(kMethods, method, &Method::name);
  if (known == std::end(kMethods)) {
    std::vector<std::string_view> names;
    for (const Method& m : kMethods) names.push_back(m.name);
    throw bad_input("{}: config.json: {} {} is not supported; supported: {}", config.path(), kMethod, quote(method),
                    fmt::join(names, ", "));
  }
  known->add(source, matrices);
}

}  // namespace

std::vector<Matrix> find_matrices(const Source& source) {
  std::vector<Matrix> matrices;
  add_quantized(source, matrices);
  add_f64(source.tensors(), matrices);
  return matrices;
}

}  // namespace gabbro::published
