// Any quantization_config and any tensors under the names that published quantized forms use: an Error of one line, or
// matrices whose bytes can be made and dequantized. The text is the quantization_config; numbers choose names, element
// types and lengths of tensors; what remains are their bytes, again and again.
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/base/error.h"
#include "src/formats/checkpoint.h"
#include "src/formats/quant/quant.h"
#include "tests/fuzz/input.h"

namespace {

namespace fs = std::filesystem;

constexpr const char* kModules[] = {"a", "b.mlp.experts.gate_up_proj", "model.layers.0.q_proj"};
constexpr const char* kSuffixes[] = {".weight",
                                     ".qweight",
                                     ".qzeros",
                                     ".scales",
                                     ".g_idx",
                                     ".weight_scale",
                                     ".weight_scale_inv",
                                     ".input_scale",
                                     ".SCB",
                                     ".weight.absmax",
                                     ".weight.quant_map",
                                     ".weight.nested_absmax",
                                     ".weight.nested_quant_map",
                                     ".weight.quant_state.bitsandbytes__nf4",
                                     ".weight.quant_state.bitsandbytes__fp4",
                                     ".weight_packed",
                                     ".weight_shape",
                                     ".weight_zero_point",
                                     ".weight_g_idx",
                                     "_blocks",
                                     "_scales",
                                     ".weight_format",
                                     ".weight_global_scale",
                                     ".weight_scale_2"};
struct Type {
  const char* name;
  size_t bytes;
};
constexpr Type kTypes[] = {{"I32", 4},     {"F32", 4}, {"F16", 2}, {"BF16", 2},        {"U8", 1},
                           {"F8_E4M3", 1}, {"I8", 1},  {"I64", 8}, {"F8_E4M3FNUZ", 1}, {"F8_E8M0", 1}};
constexpr int64_t kLengths[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256};
constexpr int64_t kMostElements = 1 << 14;

const fs::path& folder() {
  static const fs::path path = [] {
    const fs::path made = fs::temp_directory_path() / ("gabbro-fuzz-published-" + std::to_string(::getpid()));
    fs::create_directories(made);
    std::atexit([] { fs::remove_all(folder()); });
    return made;
  }();
  return path;
}

template <class Call>
void one_line(const Call& call) {
  try {
    call();
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
}

// A safetensors file of the tensors that the input asks for.
std::string tensors_of(gabbro::fuzz::Input& input) {
  std::string header = "{";
  size_t total = 0;
  const int64_t count = input.number(1, 7);
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = std::string(input.pick(kModules)) + input.pick(kSuffixes);
    const Type& type = input.pick(kTypes);
    const int64_t rank = input.number(0, 4);
    int64_t elements = 1;
    std::string shape;
    for (int64_t axis = 0; axis < rank; ++axis) {
      int64_t length = input.pick(kLengths);
      if (elements * length > kMostElements) length = 1;
      elements *= length;
      shape += (axis > 0 ? "," : "") + std::to_string(length);
    }
    const size_t bytes = static_cast<size_t>(elements) * type.bytes;
    header += (i > 0 ? ",\"" : "\"") + name + "\":{\"dtype\":\"" + type.name + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(total) + "," + std::to_string(total + bytes) + "]}";
    total += bytes;
  }
  header += "}";
  const std::string values = input.rest();
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += header;
  for (size_t i = 0; i < total; ++i) file.push_back(values.empty() ? '\0' : values[i % values.size()]);
  return file;
}

float touch(const gabbro::CheckpointTensor& tensor) {
  tensor.prepare();
  float sum = 0;
  if (tensor.known_dtype && tensor.elements() > 0 && !tensor.shape.empty()) {
    const gabbro::DType dtype = tensor.dtype();
    const bool number = gabbro::is_quantized(dtype) || dtype == gabbro::DType::f32 || dtype == gabbro::DType::f16 ||
                        dtype == gabbro::DType::bf16;
    const int64_t columns = tensor.shape.back(), rows = tensor.elements() / columns;
    std::vector<float> values(static_cast<size_t>(columns));
    for (int64_t row = 0; number && row < rows; ++row) {
      const size_t bytes = tensor.data.size() / static_cast<size_t>(rows);
      gabbro::dequantize_row(dtype, tensor.data.data() + static_cast<size_t>(row) * bytes, values.data(), columns);
      sum += values.back();
    }
  }
  if (tensor.ordered) sum += touch(tensor.ordered->matrix);
  tensor.release();
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  gabbro::fuzz::Input input(data, size);
  const std::string config = input.text(512);
  const std::string file = tensors_of(input);
  std::ofstream(folder() / "config.json") << R"({"model_type":"llama","quantization_config":)" << config << "}";
  std::ofstream(folder() / "model.safetensors", std::ios::binary) << file;
  float sum = 0;
  one_line([&] {
    const gabbro::Checkpoint checkpoint = gabbro::Checkpoint::open(folder().string());
    for (const gabbro::CheckpointTensor& tensor : checkpoint.tensors()) one_line([&] { sum += touch(tensor); });
  });
  volatile float sink = sum;
  (void)sink;
  return 0;
}
