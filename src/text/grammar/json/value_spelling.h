// How the values of a schema are written, where calls of tools have another form than JSON.
#pragma once

#include <string>

namespace gabbro::text::grammar {

struct ValueSpelling {
  std::string quote{};        // around strings, which have no escapes then; empty: JSON's strings
  bool bare_strings = false;  // strings have neither quotes nor escapes
  bool bare_names = false;    // names of members have no quotes
  bool python_words = false;  // True, False and None
  std::string without{};      // no string contains this text

  bool has_json_strings() const { return quote.empty() && !bare_strings && without.empty(); }
};

}  // namespace gabbro::text::grammar
