// Tiny llama files for tests. Weights follow a formula that tests/reference/make_llm_fixtures.py shares.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "gabbro/dtype.h"

namespace gabbro::test {

struct TinyTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct TinyModel {
  static constexpr int64_t kC = 64, kH = 2, kG = 1, kD = 32, kF = 96, kV = 300, kL = 2, kContext = 256;

  // Fields of the architecture by their name without its prefix; i64 is written as u32.
  using Field = std::variant<int64_t, float, std::string, bool, std::vector<int32_t>>;
  std::map<std::string, Field> fields;
  std::map<std::string, Field> general;  // by their full names
  std::map<std::string, TinyTensor> tensors;
  std::string architecture = "llama";
  std::vector<std::string> tokens;  // with the id of the last one as the end of a text
  DType weights = DType::f32;       // of the matrices: f32, f16 or q8_0

  // Writes the file into the temporary folder of the tests and returns its path.
  std::string write(const std::string& name = "tiny") const;
};

struct TinyOptions {
  bool tied = true;
  bool bias = false;
};
TinyModel tiny_llama(const TinyOptions& options = {});

}  // namespace gabbro::test
