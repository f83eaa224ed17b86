// MODEL on the command line; gabbro::resolve_model (src/formats/model_cache.h) says what it means.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gabbro::cli {

inline CLI::Option* add_model(CLI::App& app, std::string& model) {
  return app.add_option("MODEL", model, "A GGUF file, or a name that 'gabbro list' shows")->required();
}

}  // namespace gabbro::cli
