// Normalizers of tokenizer.json: changes of a text before it is cut into words.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/json_node.h"
#include "src/text/pipeline/charsmap.h"
#include "src/text/regex/text_pattern.h"
#include "src/text/unicode/unicode.h"

namespace gabbro::text {

struct NormalizedText {
  std::string text;       // well-formed UTF-8
  size_t origin_end = 0;  // bytes at the beginning that come from the first character of the whole input
};

// May be used by several threads at once.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void normalize(NormalizedText& text) const = 0;
};

// The normalizer of a node {"type": ...}. Throws bad_input that names the path.
std::unique_ptr<const Normalizer> make_normalizer(const JsonNode& node);

}  // namespace gabbro::text
