// MODEL on the command line: a GGUF file, a folder that holds one, or a name in the model cache.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace gabbro::cli {

CLI::Option* add_model(CLI::App& app, std::string& model);  // the required positional MODEL

// The path of the file. Throws bad_input where there is none, with what to do as the hint.
std::string resolve_model(const std::string& model);

}  // namespace gabbro::cli
