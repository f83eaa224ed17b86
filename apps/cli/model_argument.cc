#include "apps/cli/model_argument.h"

#include "apps/cli/text_files.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"

namespace gabbro::cli {

Option add_model(Command command, std::string& model) {
  return command.option("MODEL", model, "A GGUF file, or a name that 'gabbro list' shows")
      .alias("-m,--model")
      .check(require_mappable)
      .file(FileUse::kModel)
      .required();
}

Option add_shape(Command command, std::string& shape) {
  return command
      .option("--shape", shape,
              "A shape instead of MODEL: a published one (llama-8b, qwen3-30b-a3b, gpt-oss-20b, granite-4-h-small, "
              "...) or sizes: "
              "layers=2,embedding=64,heads=4,kv-heads=2,head-dimension=16,feed-forward=96,vocabulary=256,"
              "context=4096,tied=1")
      .placeholder("SHAPE");
}

Option add_type(Command command, std::string& type) {
  return command.option("--type", type, "Format of the weights, as model files are called: f16, q8_0, q4_k_m, ...")
      .placeholder("TYPE");
}

const FileType& parse_type(const std::string& name) {
  if (const FileType* type = find_file_type(name)) return *type;
  std::string known;
  std::vector<std::string> names;
  for (const FileType& type : file_types()) {
    names.emplace_back(type.name);
    known += (known.empty() ? "" : ", ") + names.back();
  }
  const std::string meant = closest(name, names);
  throw Error(ErrorCode::kBadInput, fmt::format("--type: '{}' is not a type of model files", name),
              (meant.empty() ? "" : fmt::format("did you mean {}? ", meant)) + "known: " + known);
}

}  // namespace gabbro::cli
