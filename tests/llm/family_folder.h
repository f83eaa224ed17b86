// Models of tests/data/families with weights in f32.
#pragma once

#include <filesystem>
#include <string>

namespace gabbro {

// The folder of this name there.
std::string family_folder(const std::string& name);

// A temporary folder with the model's configuration alone, which the next call replaces.
std::filesystem::path with_config(const std::string& folder);

// A copy of the model with weights in f32, in a temporary folder, which the next call replaces.
std::string in_f32(const std::string& folder);

}  // namespace gabbro
