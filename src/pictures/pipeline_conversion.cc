#include "src/pictures/pipeline_conversion.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <vector>

#include "src/base/error.h"
#include "src/formats/checkpoint.h"
#include "src/pictures/converted_folder.h"
#include "src/pictures/converted_tensor.h"
#include "src/pictures/pipeline_folder.h"
#include "src/pictures/pipeline_parts.h"
#include "src/pictures/single_file/original_layout.h"
#include "src/pictures/single_file/single_file.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

// Converts tensors of a pipeline in sequence, and counts them.
class TensorConverter {
 public:
  TensorConverter(const FileType& type, const PipelineConversion& options, double total)
      : type_(type), options_(options), total_(total) {}

  ConvertedTensor convert(const std::string& path, const CheckpointTensor& tensor, bool blocks = true) {
    if (options_.cancel != nullptr && *options_.cancel) throw Error(ErrorCode::kInterrupted, "interrupted", "");
    ConvertedTensor converted = convert_tensor(path, tensor, blocks || is_plain(type_.base) ? type_.base : DType::f16);
    done_ += static_cast<double>(tensor.elements());
    if (options_.progress) options_.progress(done_ / total_);
    return converted;
  }
  void add(const std::deque<ConvertedTensor>& tensors) {
    for (const ConvertedTensor& tensor : tensors) result_.bytes += tensor.bytes.size();
    result_.tensors += tensors.size();
  }
  const FileType& type() const { return type_; }
  const ConvertedPipeline& result() const { return result_; }

 private:
  const FileType& type_;
  const PipelineConversion& options_;
  double total_, done_ = 0;
  ConvertedPipeline result_;
};

struct NamedPart {
  std::string name;  // of its folder
  const Checkpoint* checkpoint;
  const char* safetensors;
};

std::vector<NamedPart> named_parts(const PipelineParts& parts) {
  std::vector<NamedPart> named;
  for (const TextPart& text : parts.text_encoders)
    named.push_back({named.empty() ? "text_encoder" : "text_encoder_2", &text.checkpoint, "model.safetensors"});
  named.push_back({"unet", &parts.unet.checkpoint, "diffusion_pytorch_model.safetensors"});
  named.push_back({"vae", &parts.autoencoder.checkpoint, "diffusion_pytorch_model.safetensors"});
  return named;
}

double elements_of(const PipelineParts& parts) {
  double total = 0;
  for (const NamedPart& part : named_parts(parts)) {
    for (const CheckpointTensor& tensor : part.checkpoint->tensors()) total += static_cast<double>(tensor.elements());
  }
  return std::max(total, 1.0);
}

void write_weights(const PipelineParts& parts, const fs::path& out, TensorConverter& converter) {
  for (const NamedPart& part : named_parts(parts)) {
    std::deque<ConvertedTensor> tensors;
    for (const CheckpointTensor& tensor : part.checkpoint->tensors())
      tensors.push_back(converter.convert(part.checkpoint->path(), tensor));
    part.checkpoint->require_unchanged();
    converter.add(tensors);
    const fs::path path = out / part.name;
    if (is_plain(converter.type().base)) {
      write_safetensors((path / part.safetensors).string(), tensors);
    } else {
      write_gguf((path / "model.gguf").string(), part.name, tensors, converter.type(),
                 {{"general.type", "pipeline_part"}});
    }
  }
}

// The marks by which other programs know a model of SDXL that predicts velocity.
void add_marks(const PipelineParts& parts, std::deque<ConvertedTensor>& tensors) {
  const JsonNode scheduler(parts.scheduler, parts.scheduler_name);
  if (parts.text_encoders.size() != 2 || scheduler.string_or("prediction_type", "") != "v_prediction") return;
  tensors.push_back({.name = "v_pred", .dtype = DType::f32, .shape = {0}, .stored = {0}, .bytes = {}});
  if (scheduler.boolean_or("rescale_betas_zero_snr", false))
    tensors.push_back({.name = "ztsnr", .dtype = DType::f32, .shape = {0}, .stored = {0}, .bytes = {}});
}

void write_single(const PipelineParts& parts, const std::string& out, bool is_gguf, TensorConverter& converter) {
  std::deque<ConvertedTensor> tensors;
  for (const OriginalTensor& original : original_tensors(parts)) {
    ConvertedTensor whole;
    for (const CheckpointTensor& source : original.sources) {
      ConvertedTensor part = converter.convert(source.file->path(), source, !original.transposed);
      if (whole.shape.empty()) {
        whole = std::move(part);
        continue;
      }
      whole.shape[0] += part.shape[0];
      whole.stored[0] += part.stored[0];
      whole.bytes.insert(whole.bytes.end(), part.bytes.begin(), part.bytes.end());
    }
    whole.name = original.name;
    tensors.push_back(std::move(whole));
  }
  for (const NamedPart& part : named_parts(parts)) part.checkpoint->require_unchanged();
  const std::string configs = stored_configs(parts).dump();
  if (is_gguf) {
    write_gguf(out, original_architecture(parts), tensors, converter.type(), {{kPipelineField, configs}});
  } else {
    add_marks(parts, tensors);
    write_safetensors(out, tensors, {{kPipelineField, configs}});
  }
  converter.add(tensors);
}

bool is_given(const GivenParts& given) {
  return !given.autoencoder.empty() || !given.text_encoders.empty() || !given.tokenizers.empty();
}

bool is_single_name(const std::string& out) { return out.ends_with(".gguf") || out.ends_with(".safetensors"); }

void require_format(const std::string& out, const FileType& type) {
  if (!out.ends_with(".safetensors") || is_plain(type.base)) return;
  throw Error(ErrorCode::kBadInput,
              fmt::format("{}: a safetensors file has weights in f32, f16 or bf16, not {}", out, type.name),
              "a .gguf file and a folder have the other formats");
}

// Calls `write` with a path next to `out`, and gives what is there its name.
void write_whole(const std::string& out, const std::function<void(const fs::path& partial)>& write) {
  fs::path target = fs::path(out).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "folder/"
  const fs::path partial = target.parent_path() / (target.filename().string() + ".partial");
  const auto remove_partial = [&] {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
  };
  try {
    if (fs::exists(target)) throw bad_input("{}: is there already", out);
    if (target.has_parent_path() && !fs::is_directory(target.parent_path()))
      throw bad_input("{}: there is no folder {}", out, target.parent_path().string());
    remove_partial();
    write(partial);
    fs::rename(partial, target);
  } catch (const fs::filesystem_error& error) {
    remove_partial();
    throw bad_input("{}: cannot be written: {}", out, error.code().message());
  } catch (...) {
    remove_partial();
    throw;
  }
}

}  // namespace

ConvertedPipeline convert_to_single_file(const PipelineParts& parts, const std::string& out, const FileType& type,
                                         const PipelineConversion& options) {
  require_format(out, type);
  TensorConverter converter(type, options, elements_of(parts));
  write_whole(
      out, [&](const fs::path& partial) { write_single(parts, partial.string(), out.ends_with(".gguf"), converter); });
  return converter.result();
}

ConvertedPipeline convert_pipeline(const std::string& model, const std::string& out, const FileType& type,
                                   const PipelineConversion& options) {
  require_format(out, type);
  GivenParts given = options.given;
  given.needs_tokenizer = !is_single_name(out);
  const PipelineParts parts = open_pipeline(model, given);
  if (is_single_name(out)) return convert_to_single_file(parts, out, type, options);
  TensorConverter converter(type, options, elements_of(parts));
  write_whole(out, [&](const fs::path& partial) {
    if (is_single_file(model) || is_given(given)) {
      write_descriptions(parts, partial);
    } else {
      copy_descriptions(model, partial);
    }
    write_weights(parts, partial, converter);
  });
  return converter.result();
}

}  // namespace gabbro::pictures
