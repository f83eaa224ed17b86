// `convert`: a GGUF file of a safetensors folder, or of another GGUF file with its weights in other formats; of a
// pipeline of pictures a folder or a single file.
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/input_files.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/options.h"
#include "apps/cli/picture_parts.h"
#include "apps/cli/source_layers.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/convert/convert.h"
#include "src/engine/conversion.h"
#include "src/engine/tokenizer_fields.h"
#include "src/hub/model_cache.h"
#include "src/models/llm/registry.h"
#include "src/pictures/pipeline_conversion.h"
#include "src/pictures/single_file/single_file.h"

namespace gabbro::cli {
namespace {

struct ConvertOptions {
  CommonOptions common;
  std::string model;
  std::string out;
  std::string type = "f16";
  bool force = false;
  std::string imatrix;
  std::vector<std::string> lora;
  pictures::GivenParts parts;
};

const FileType& type_of(const std::string& name) {
  if (const FileType* type = find_file_type(std::string_view(name))) return *type;
  std::string known;
  for (const FileType& type : file_types()) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw Error(ErrorCode::kBadInput, fmt::format("--type: '{}' is not known", name), "known: " + known);
}

// MODEL-TYPE.gguf in the current folder.
std::string default_name(const std::string& model, const std::string& type, const char* ending = ".gguf") {
  const std::filesystem::path path = std::filesystem::weakly_canonical(model);
  const bool folder = std::filesystem::is_directory(path);
  return (folder ? path.filename() : path.stem()).string() + "-" + type + ending;
}

void check_target(const ConvertOptions& o, const std::string& out, const InputFiles& inputs) {
  inputs.refuse_output(out);
  struct stat target = {};
  if (::stat(out.c_str(), &target) != 0) return;
  if (!S_ISREG(target.st_mode)) throw bad_input("{}: is there, and is not a file", out);
  if (!o.force) throw Error(ErrorCode::kBadInput, fmt::format("{}: is there already", out), "replace it with --force");
}

// Adapters of the model's source come first.
std::vector<llm::MergedAdapter> adapters_of(const ConvertOptions& o, const SourceLayers& layers,
                                            const Checkpoint& checkpoint) {
  std::vector<llm::MergedAdapter> adapters;
  const auto add = [&](const std::string& path, float scale) {
    adapters.push_back({std::make_shared<const llm::Adapter>(llm::Adapter::open(path)), scale});
    llm::check_adapter(*adapters.back().adapter, checkpoint);
  };
  if (layers != nullptr) {
    for (const std::string& path : layers->adapters) add(path, 1);
  }
  for (const std::string& lora : o.lora) {
    const auto [path, scale] = llm::parse_adapter(lora);
    add(path, scale);
  }
  return adapters;
}

// A GGUF file has no place for them.
void report_left_out(const SourceLayers& layers) {
  if (layers == nullptr) return;
  std::string left_out;
  const auto add = [&](bool is_there, const char* name) {
    if (is_there) left_out += (left_out.empty() ? "" : ", ") + std::string(name);
  };
  add(layers->chat_template.has_value(), "TEMPLATE");
  add(!layers->system.empty(), "SYSTEM");
  add(!layers->parameters.empty(), "PARAMETER");
  add(!layers->messages.empty(), "MESSAGE");
  add(!layers->licenses.empty(), "LICENSE");
  if (!left_out.empty()) report("note", fmt::format("{}: not part of the new file: {}", layers->name, left_out));
}

// A pipeline's folder or single file becomes another one.
int run_pipeline(const ConvertOptions& o, const InputFiles& inputs, const FileType& type) {
  refuse_for_pictures({{!o.imatrix.empty(), "--imatrix"}, {!o.lora.empty(), "--lora"}, {o.force, "--force"}});
  const char* const ending = !pictures::is_single_file(o.model) ? ""
                             : is_quantized(type.base)          ? ".gguf"
                                                                : ".safetensors";
  const std::string out = o.out.empty() ? default_name(o.model, std::string(type.name), ending) : o.out;
  inputs.refuse_output(out);
  const Cancelable cancelable;
  const auto start = std::chrono::steady_clock::now();
  pictures::ConvertedPipeline result;
  {
    ProgressBar bar("converting", true);
    result = pictures::convert_pipeline(
        o.model, out, type,
        {.given = o.parts, .progress = [&](double done) { bar.show(done); }, .cancel = cancelable.flag()});
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (o.common.json) {
    print_json({{"path", out},
                {"type", type.name},
                {"bytes", result.bytes},
                {"tensors", result.tensors},
                {"seconds", seconds}});
  } else {
    print(fmt::format("{}: {} tensors, {}, {:.1f} s\n", out, result.tensors, human_bytes(result.bytes), seconds));
  }
  return 0;
}

int run(const ConvertOptions& o, const InputFiles& inputs) {
  const FileType& type = type_of(o.type);
  if (pictures::is_picture_model(o.model)) return run_pipeline(o, inputs, type);
  refuse_picture_parts(o.parts);
  const auto [model, layers] = resolve_with_layers(o.model);
  const Checkpoint checkpoint = Checkpoint::open(model);
  const std::string out = o.out.empty() ? default_name(model, std::string(type.name)) : o.out;
  check_target(o, out, inputs);
  const std::optional<ImportanceMatrix> importance =
      o.imatrix.empty() ? std::nullopt : std::optional(ImportanceMatrix::read(o.imatrix));
  const Cancelable cancelable;
  const auto start = std::chrono::steady_clock::now();
  llm::Converted result;
  {
    ProgressBar bar("converting", true);
    result = llm::convert(
        checkpoint, convertible_of(checkpoint), out,
        {.type = &type,
         .threads = o.common.threads,
         .write_tokenizer =
             [&](int64_t vocabulary, gguf::Writer& writer) {
               return write_tokenizer_fields(checkpoint, vocabulary, writer);
             },
         .check = check_converted,
         .replaces = o.force,
         .importance = importance ? &*importance : nullptr,
         .importance_path = o.imatrix,
         .adapters = adapters_of(o, layers, checkpoint),
         .progress = [&](uint64_t done,
                         uint64_t total) { bar.show(static_cast<double>(done) / static_cast<double>(total)); },
         .cancel = cancelable.flag()});
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::string& warning : result.warnings) report("warning", warning);
  report_left_out(layers);
  if (o.common.json) {
    print_json({{"path", out},
                {"type", type.name},
                {"bytes", result.bytes},
                {"tensors", result.tensors},
                {"tensors_continued", result.tensors_found},
                {"seconds", seconds}});
    return 0;
  }
  print(fmt::format("{}: {} tensors, {}{}, {:.1f} s\n", out, result.tensors, human_bytes(result.bytes),
                    result.tensors_found > 0 ? fmt::format(" ({} tensors were there)", result.tensors_found) : "",
                    seconds));
  return 0;
}

}  // namespace

void add_convert(Command root) {
  Command command = root.subcommand("convert", "Write a model as one GGUF file, with its weights in any format");
  const auto o = std::make_shared<ConvertOptions>();
  add_model(command, o->model);
  command
      .option("-o,--out", o->out,
              "File to write; of a pipeline of pictures a folder, or a single file that ends in .safetensors or .gguf; "
              "MODEL-TYPE in this folder where it is left out")
      .placeholder("FILE.gguf")
      .file(FileUse::kOutput);
  command.option("--type", o->type, "Format of the weights: f32, bf16, f16, q8_0, q4_k_m, ...").placeholder("TYPE");
  command.option("--imatrix", o->imatrix, "Weight errors by an importance matrix of gabbro imatrix or llama.cpp")
      .placeholder("FILE")
      .file(FileUse::kInput);
  add_lora(command, o->lora, "Merge a LoRA adapter: a PEFT folder or a GGUF file; may be repeated");
  add_picture_parts(command, o->parts);
  command.flag("--force", o->force, "Replace a file that is there");
  add_threads(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro convert Qwen3-4B --type q8_0 -o qwen3-4b-q8_0.gguf");
  command.example("gabbro convert stable-diffusion-v1-5 --type q8_0 -o sd15-q8_0");
  command.example("gabbro convert sdxl.safetensors --type f16 --tokenizer FOLDER -o sdxl-folder");
  command.example("gabbro convert Qwen3-4B --type iq2_xs --imatrix imatrix.gguf");
  command.runs([o, command] { return run(*o, inputs_of(command.spec())); });
}

}  // namespace gabbro::cli
