#include "apps/cli/model_argument.h"

#include "src/base/error.h"

namespace gabbro::cli {

CLI::Option* add_type(CLI::App& app, std::string& type) {
  return app.add_option("--type", type, "Format of the weights, as model files are called: f16, q8_0, q4_k_m, ...")
      ->type_name("TYPE")
      ->capture_default_str();
}

const FileType& parse_type(const std::string& name) {
  if (const FileType* type = find_file_type(name)) return *type;
  std::string known;
  for (const FileType& type : file_types()) known += (known.empty() ? "" : ", ") + std::string(type.name);
  throw Error(ErrorCode::kBadInput, fmt::format("--type: '{}' is not a type of model files", name), "known: " + known);
}

}  // namespace gabbro::cli
