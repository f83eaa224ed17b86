// Regular expressions of Python over names of modules, as PEFT's adapter_config.json has them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace gabbro::llm {

class NamePattern {
 public:
  // Throws bad_input that begins with `where`, the field and its text, for an expression that is not one.
  NamePattern(const std::string& expression, const std::string& where);

  // Whether the expression matches from the start of `name`, as Python's re.match. Throws bad_input for one that takes
  // too many steps.
  bool matches(std::string_view name) const;

 private:
  std::string where_;
  std::shared_ptr<void> code_;  // of PCRE2
};

}  // namespace gabbro::llm
