#include "apps/cli/model_argument.h"

#include "src/base/error.h"
#include "src/formats/model_cache.h"

namespace gabbro::cli {

CLI::Option* add_model(CLI::App& app, std::string& model) {
  return app.add_option("MODEL", model, "A GGUF file, a folder that holds one, or a name from 'gabbro list'")->required();
}

std::string resolve_model(const std::string& model) {
  if (model.empty()) throw bad_input("MODEL is empty");
  return model;
}

}  // namespace gabbro::cli
