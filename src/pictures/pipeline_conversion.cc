#include "src/pictures/pipeline_conversion.h"

#include <deque>
#include <filesystem>
#include <vector>

#include "src/base/error.h"
#include "src/formats/checkpoint.h"
#include "src/pictures/converted_tensor.h"
#include "src/pictures/pipeline_folder.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

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
      write_gguf((path / "model.gguf").string(), part.name, tensors, type, {{"general.type", "pipeline_part"}});
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
