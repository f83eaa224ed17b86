// The form that a generated text has to have: the request's description, which src/text/grammar compiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
    // Calls of tools. `source`: {"format": "hermes", "llama3", or another name of call_forms.cc, "tools": [{"name",
    // "parameters", "strict"}], "required": true (only calls) or false (text, and calls that it may contain),
    // "parallel": true (several) or false}. With "answer": {"kind", "source"} of another format the text is calls or
    // has that format.
    kToolCalls,
  };
  Kind kind = Kind::kText;
  std::string source{};
  // Not empty: any text comes first, up to and with the first occurrence of this one, such as the end of thoughts.
  std::string after{};
  // Not empty: the text that comes first may be missing, and begins with this one.
  std::string optional_begin{};
  // Names of control tokens that the text may contain, each as its name: markers of calls and of thoughts.
  std::vector<std::string> controls{};

  bool is_text() const { return kind == Kind::kText; }
  bool operator==(const OutputFormat&) const = default;
};

}  // namespace gabbro
