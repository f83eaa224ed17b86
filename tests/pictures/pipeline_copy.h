// Copies of the pipelines in tests/data/pictures, to be changed by a test.
#pragma once

#include <filesystem>
#include <string>

namespace gabbro::pictures {

// A copy of a pipeline's folder whose scheduler_config.json is another; the next call replaces it.
std::string with_scheduler(const std::string& name, const std::string& config);

// Replaces the first `what` in a text file, which has to be there.
void replace_in_file(const std::filesystem::path& file, const std::string& what, const std::string& with);

// Multiplies all values of an f32 tensor in a safetensors file by a factor.
void scale_tensor(const std::filesystem::path& file, const std::string& tensor, float factor);

}  // namespace gabbro::pictures
