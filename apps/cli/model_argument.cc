#include "apps/cli/model_argument.h"

#include "src/base/error.h"

namespace gabbro::cli {

Option add_shape(Command command, std::string& shape) {
  return command
      .option("--shape", shape,
              "A shape instead of MODEL: llama-1b, llama-3b, llama-8b, llama-70b, or sizes: "
              "layers=2,embedding=64,heads=4,kv-heads=2,head-dimension=16,feed-forward=96,vocabulary=256,"
              "context=4096,tied=1")
      .placeholder("SHAPE");
}

Option add_type(Command command, std::string& type) {
  return command.option("--type", type, "Format of the weights, as model files are called: f16, q8_0, q4_k_m, ...")
      .placeholder("TYPE")
      .shows_default();
}

const FileType& parse_type(const std::string& name) {
  if (const FileType* type = find_file_type(name)) return *type;
  std::string known;
  for (const FileType& type : file_types()) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw Error(ErrorCode::kBadInput, fmt::format("--type: '{}' is not a type of model files", name), "known: " + known);
}

}  // namespace gabbro::cli
