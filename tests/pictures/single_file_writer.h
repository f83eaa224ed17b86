// Single files of the pipelines in tests/data/pictures, by the table of names that diffusers has confirmed
// (tests/reference/make_single_file_fixtures.py).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::pictures {

struct SingleFileOptions {
  std::string folder{};                 // with the weights; empty: that of tests/data/pictures
  std::vector<std::string> left_out{};  // parts: "vae", "text_encoder", ...
  std::vector<std::string> more{};      // names of further tensors, of one number each
  bool stores_config = true;            // as `convert` does: heads and groups of tiny models are in no shape
  bool stores_scheduler = true;         // in this configuration
  std::string prediction{};             // modelspec.prediction_type; empty: the file has no such field
};

// A safetensors file, or a GGUF file if the path ends so.
void write_single_file(const std::string& name, const std::string& path, const SingleFileOptions& options = {});

}  // namespace gabbro::pictures
