// A TEMPLATE of Ollama's, in the language of Go's text/template, with the variables and in the manner of Ollama
// (its template/template.go).
#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/text/chat/go_template/node.h"

namespace gabbro::text {

class OllamaTemplate {
 public:
  // Throws bad_input, "template: line 3: ...", where Go or Ollama does, and for functions that are not supported.
  explicit OllamaTemplate(const std::string& source);

  // The prompt of a conversation. A template that names .Messages gets all of them; another one is executed for each
  // turn, with .System, .Prompt and .Response, and the last time up to .Response. `think` counts for templates that
  // show thoughts. Content of message i is input of source i, all else but the usual roles is other input.
  jinja::MarkedText render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools, bool think,
                           std::time_t now) const;

 private:
  bool uses(const char* name) const;

  go::Tree tree_;
  std::vector<std::string> names_;
};

}  // namespace gabbro::text
