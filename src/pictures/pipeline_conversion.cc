#include "src/pictures/pipeline_conversion.h"

#include <deque>
#include <filesystem>
#include <vector>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/checkpoint.h"
#include "src/formats/damaged_tensor.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/finite.h"
#include "src/formats/quant/quant.h"
#include "src/pictures/pipeline_folder.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

// A tensor of the new file.
struct ConvertedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape, stored;  // `stored`: as the file has it
  std::vector<std::byte> bytes;
};

bool is_plain(DType dtype) { return !is_quantized(dtype); }

// [O, ...] as a matrix of O rows.
std::vector<int64_t> as_matrix(const std::vector<int64_t>& shape, int64_t elements) {
  return {shape.front(), elements / shape.front()};
}

ConvertedTensor convert_tensor(const Checkpoint& checkpoint, const CheckpointTensor& tensor, DType base) {
  ConvertedTensor result{.name = std::string(tensor.name), .shape = tensor.shape, .stored = tensor.shape};
  const int64_t elements = tensor.elements();
  const bool is_vector = tensor.shape.size() < 2;
  if (is_plain(base)) {
    result.dtype = base;
  } else if (!is_vector) {
    result.stored = as_matrix(tensor.shape, elements);
    result.dtype = result.stored[1] % dtype_info(base).block_elements == 0 ? base : DType::f16;
  }
  tensor.prepare();
  const DType stored = tensor.dtype();
  if (!is_floating(stored) && !is_quantized(stored)) {  // numbers of positions
    result.dtype = stored;
    result.stored = tensor.shape;
    result.bytes.assign(tensor.data.begin(), tensor.data.end());
    return result;
  }
  if (const auto found = find_non_finite(stored, tensor.data.data(), elements))
    throw damaged_tensor(checkpoint.path(), tensor.name, *found, tensor.shape);
  std::vector<float> values(static_cast<size_t>(elements));
  dequantize_row(stored, tensor.data.data(), values.data(), elements);
  result.bytes.resize(dtype_bytes(result.dtype, values.size()));
  quantize_row(result.dtype, values.data(), result.bytes.data(), elements);
  if (const auto found = find_overflow(result.dtype, values, result.bytes.data())) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: tensor {}: {} is too large for {}", checkpoint.path(), quote(tensor.name),
                            describe(*found, tensor.shape), dtype_name(result.dtype)),
                "--type bf16 has the range of f32");
  }
  tensor.release();
  return result;
}

void write_gguf(const std::string& path, const std::string& part, const std::deque<ConvertedTensor>& tensors,
                const FileType& type) {
  gguf::Writer writer;
  writer.add_string("general.architecture", part);
  writer.add_string("general.type", "pipeline_part");
  writer.add_u32("general.file_type", type.number);
  for (const ConvertedTensor& tensor : tensors) {
    if (tensor.stored == tensor.shape) continue;
    const std::vector<int32_t> shape(tensor.shape.begin(), tensor.shape.end());
    writer.add_i32s("comfy.gguf.orig_shape." + tensor.name, shape);
  }
  for (const ConvertedTensor& tensor : tensors)
    writer.add_tensor(tensor.name, gguf::ggml_type_number(tensor.dtype), tensor.stored, tensor.bytes);
  writer.write(path);
}

void write_safetensors(const std::string& path, const std::deque<ConvertedTensor>& tensors) {
  std::vector<safetensors::TensorData> data;
  for (const ConvertedTensor& tensor : tensors)
    data.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.bytes});
  safetensors::write(path, data, {{"format", "pt"}});
}

// Files of a part besides its weights.
void copy_descriptions(const fs::path& from, const fs::path& to) {
  fs::create_directory(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const bool is_description = name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".md");
    if (entry.is_regular_file() && is_description && !name.ends_with(".safetensors.index.json"))
      fs::copy_file(entry.path(), to / name);
  }
}

struct Part {
  std::string name;
  std::string folder;
  const char* safetensors;
};

ConvertedPipeline write_folder(const PipelineFolder& source, const fs::path& out, const FileType& type,
                               const PipelineConversion& options) {
  ConvertedPipeline result;
  copy_descriptions(source.path, out);
  copy_descriptions(source.scheduler, out / "scheduler");
  std::vector<Part> parts;
  for (const auto& [encoder, tokenizer] : source.text_encoders) {
    const char* const ending = parts.empty() ? "" : "_2";
    copy_descriptions(tokenizer, out / (std::string("tokenizer") + ending));
    parts.push_back({std::string("text_encoder") + ending, encoder, "model.safetensors"});
  }
  parts.push_back({"unet", source.unet, "diffusion_pytorch_model.safetensors"});
  parts.push_back({"vae", source.vae, "diffusion_pytorch_model.safetensors"});
  double done = 0, total = 0;
  std::vector<Checkpoint> checkpoints;
  for (const Part& part : parts) {
    checkpoints.push_back(Checkpoint::open(weights_of(part.folder)));
    for (const CheckpointTensor& tensor : checkpoints.back().tensors()) total += static_cast<double>(tensor.elements());
  }
  for (const Part& part : parts) {
    const Checkpoint& checkpoint = checkpoints[static_cast<size_t>(&part - parts.data())];
    copy_descriptions(part.folder, out / part.name);
    std::deque<ConvertedTensor> tensors;
    for (const CheckpointTensor& tensor : checkpoint.tensors()) {
      if (options.cancel != nullptr && *options.cancel) throw Error(ErrorCode::kInterrupted, "interrupted", "");
      tensors.push_back(convert_tensor(checkpoint, tensor, type.base));
      result.bytes += tensors.back().bytes.size();
      done += static_cast<double>(tensor.elements());
      if (options.progress) options.progress(done / total);
    }
    checkpoint.require_unchanged();
    result.tensors += tensors.size();
    const fs::path path = out / part.name;
    if (is_plain(type.base)) {
      write_safetensors((path / part.safetensors).string(), tensors);
    } else {
      write_gguf((path / "model.gguf").string(), part.name, tensors, type);
    }
  }
  return result;
}

}  // namespace

ConvertedPipeline convert_pipeline(const std::string& folder, const std::string& out, const FileType& type,
                                   const PipelineConversion& options) {
  const PipelineFolder source = read_pipeline_folder(folder);
  fs::path target = fs::path(out).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "folder/"
  const fs::path partial = target.parent_path() / (target.filename().string() + ".partial");
  const auto remove_partial = [&] {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
  };
  try {
    if (fs::exists(target)) throw bad_input("{}: is there already", out);
    remove_partial();
    const ConvertedPipeline result = write_folder(source, partial, type, options);
    fs::rename(partial, target);
    return result;
  } catch (const fs::filesystem_error& error) {
    remove_partial();
    throw bad_input("{}: cannot be written: {}", out, error.code().message());
  } catch (...) {
    remove_partial();
    throw;
  }
}

}  // namespace gabbro::pictures
