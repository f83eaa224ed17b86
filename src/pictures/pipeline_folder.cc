#include "src/pictures/pipeline_folder.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/base/text_file.h"

namespace gabbro::pictures {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostConfig = size_t{16} << 20;
constexpr const char* kIndex = "model_index.json";
constexpr const char* kPipeline = "StableDiffusionPipeline";
constexpr const char* kXlPipeline = "StableDiffusionXLPipeline";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// "unet": ["diffusers", "UNet2DConditionModel"]. Returns the folder of the part.
std::string part_of(const JsonNode& index, const fs::path& folder, const char* name, const char* class_name) {
  const auto entry = index.find(name);
  const auto both = entry ? entry->elements() : std::vector<JsonNode>();
  if (both.size() != 2 || !both[1].is_string()) throw bad_input("{}: names no {}", index.path(), name);
  if (class_name != nullptr && both[1].string() != class_name)
    throw bad_input("{}: the class '{}' is not supported; expected {}", both[1].path(), both[1].string(), class_name);
  if (!is_there(folder / name)) throw bad_input("{}: the folder {}/ is missing", folder.string(), name);
  return (folder / name).string();
}

// The parts of a pipeline say what it can do: "StableDiffusionInpaintPipeline" is "StableDiffusionPipeline" with a
// mask.
std::string base_class(std::string name) {
  for (const std::string_view kind : {"InpaintPipeline", "Img2ImgPipeline"}) {
    if (name.starts_with("StableDiffusion") && name.ends_with(kind))
      return name.substr(0, name.size() - kind.size()) + "Pipeline";
  }
  return name;
}

}  // namespace

bool is_pipeline_folder(const std::string& path) { return is_there(fs::path(path) / kIndex); }

Json read_config(const std::string& folder, const char* file) {
  const std::string path = (fs::path(folder) / file).string();
  return parse_sorted_json(read_text_file(path, kMostConfig), path);
}

std::string find_pipeline(const std::string& model) {
  const bool is_name =
      !model.empty() && model.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == model.npos;
  if (!is_name || is_there(model)) return model;
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  const fs::path found = program.parent_path().parent_path() / "share" / "gabbro" / "models" / model;
  return is_pipeline_folder(found.string()) ? found.string() : model;
}

PipelineFolder read_pipeline_folder(const std::string& model) {
  const std::string path = find_pipeline(model);
  const fs::path folder(path);
  if (!is_there(folder)) throw bad_input("{}: no such folder", path);
  if (!is_there(folder / kIndex)) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is not a pipeline's folder: it has no {}", path, kIndex),
                "a folder of Stable Diffusion as diffusers saves it");
  }
  const Json document = read_config(path, kIndex);
  const JsonNode index(document, (folder / kIndex).string());
  PipelineFolder result{.path = path, .class_name = base_class(index.at("_class_name").string())};
  const std::string supported = fmt::format("supported: {}, {}", kPipeline, kXlPipeline);
  if (index.boolean_or("requires_aesthetics_score", false)) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: is a refiner of SDXL, which is not supported", index.path()),
                supported);
  }
  const bool is_xl = result.class_name == kXlPipeline;
  if (!is_xl && result.class_name != kPipeline) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}._class_name: '{}' is not supported", index.path(), result.class_name), supported);
  }
  result.text_encoders.push_back({.encoder = part_of(index, folder, "text_encoder", "CLIPTextModel"),
                                  .tokenizer = part_of(index, folder, "tokenizer", nullptr)});
  if (is_xl) {
    result.text_encoders.push_back({.encoder = part_of(index, folder, "text_encoder_2", "CLIPTextModelWithProjection"),
                                    .tokenizer = part_of(index, folder, "tokenizer_2", nullptr)});
    result.zeros_for_empty = index.boolean_or("force_zeros_for_empty_prompt", true);
  }
  result.unet = part_of(index, folder, "unet", "UNet2DConditionModel");
  result.vae = part_of(index, folder, "vae", "AutoencoderKL");
  result.scheduler = part_of(index, folder, "scheduler", nullptr);
  return result;
}

std::string weights_of(const std::string& folder) {
  const fs::path path(folder);
  for (const char* stem : {"diffusion_pytorch_model", "model"}) {
    for (const char* ending : {".safetensors", ".safetensors.index.json", ".fp16.safetensors"}) {
      const fs::path file = path / (std::string(stem) + ending);
      if (is_there(file)) return file.string();
    }
  }
  if (is_there(path / "model.gguf")) return (path / "model.gguf").string();
  for (const char* name : {"diffusion_pytorch_model.bin", "pytorch_model.bin"}) {
    if (is_there(path / name)) {
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{}: is a pickle, which can run code, and is not read", (path / name).string()),
                  "save the pipeline with safe_serialization=True, or fetch its safetensors files");
    }
  }
  throw bad_input("{}: has no safetensors file and no model.gguf", folder);
}

}  // namespace gabbro::pictures
