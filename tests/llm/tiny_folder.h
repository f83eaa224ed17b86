// A tiny llama as transformers saves it: config.json and safetensors files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tests/llm/tiny_model.h"

namespace gabbro::test {

// Writes the folder below the temporary folder of the tests and returns its path. Matrices have the model's dtype: f32,
// f16 or bf16. More than one file: with an index.
std::string write_folder(const TinyModel& model, const nlohmann::json& config, int files = 1);

}  // namespace gabbro::test
