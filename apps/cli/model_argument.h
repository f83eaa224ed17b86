// MODEL on the command line, and what may stand in for it; gabbro::resolve_model (src/formats/model_cache.h) says what
// it means.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "src/formats/file_type.h"

namespace gabbro::cli {

inline CLI::Option* add_model(CLI::App& app, std::string& model) {
  return app.add_option("MODEL", model, "A GGUF file, or a name that 'gabbro list' shows")->required();
}

// --shape: a model of random weights, or of none.
CLI::Option* add_shape(CLI::App& app, std::string& shape);
// --type, and what it means; throws bad_input that lists the types there are.
CLI::Option* add_type(CLI::App& app, std::string& type);
const FileType& parse_type(const std::string& name);

}  // namespace gabbro::cli
