// The form that a generated text has to have: the request's description, which src/text/grammar compiles.
#pragma once

#include <cstdint>
#include <string>

namespace gabbro {

struct OutputFormat {
  enum class Kind : int32_t {
    kText,              // any text
    kJsonObject,        // any object of JSON
    kJsonSchema,        // a document that is valid by the JSON Schema in `source`
    kClosedJsonSchema,  // as above; objects have only listed properties, unless the schema says otherwise
    kRegex,             // the whole text matches the regular expression in `source`
    kGrammar,           // GBNF with a rule `root`, in `source`
    kChoice,            // one of the strings of the JSON list in `source`
    // Calls of tools. `source`: {"format": "hermes", "llama3", or another form of tool_rules.cc, "tools": [{"name",
    // "parameters", "strict"}], "required": true (only calls) or, for these two, false (text, and calls that it may
    // contain), "parallel": true (several) or false}.
    kToolCalls,
  };
  Kind kind = Kind::kText;
  std::string source{};
  // Not empty: any text comes first, up to and with the first occurrence of this one, such as the end of thoughts.
  std::string after{};

  bool is_text() const { return kind == Kind::kText; }
  bool operator==(const OutputFormat&) const = default;
};

}  // namespace gabbro
