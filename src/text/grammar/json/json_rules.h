// Rules for the parts of JSON that every schema needs: white space, literals, any value.
#pragma once

#include <optional>

#include "src/text/grammar/char_dfa.h"
#include "src/text/grammar/json/shape.h"
#include "src/text/grammar/json/value_spelling.h"

namespace gabbro::text::grammar {

// White space may stand between tokens within objects and arrays: a line break at most, and up to 20 blanks.
class JsonRules {
 public:
  explicit JsonRules(Rules& rules, ValueSpelling spelling = {}) : rules_(rules), spelling_(std::move(spelling)) {}

  Rules& rules() { return rules_; }
  const ValueSpelling& spelling() const { return spelling_; }
  ExprId space();
  ExprId comma();  // with space around it
  ExprId colon();
  ExprId any_value();
  ExprId any_string();
  ExprId any_object();
  // "characters" in quotes.
  ExprId quoted(ExprId characters);
  // A string of these characters; nothing: of any.
  ExprId text(std::optional<CharDfa> characters);
  ExprId string(std::string_view utf8);
  // The name of a member. Throws bad_input for one that cannot be written without quotes.
  ExprId name(std::string_view utf8);
  // A name of these characters; nothing: any name.
  ExprId names(std::optional<CharDfa> characters);
  ExprId boolean();
  ExprId null();
  // This very value; numbers in their shortest form.
  ExprId value(const SchemaJson& value);
  static std::string spelled(const SchemaJson& scalar);  // in JSON
  // `open`, elements, `close`. White space after the last element belongs to the elements: there may be none of both.
  ExprId enclosed(const char* open, ExprId elements, const char* close);
  ExprId list(ExprId element, int32_t least, int32_t most);  // elements with commas between

 private:
  template <class Make>
  ExprId once(std::optional<RuleId>& rule, const char* name, const Make& make) {
    if (!rule) {
      rule = rules_.add_rule(name);
      rules_.define(*rule, make());
    }
    return rules_.rule(*rule);
  }

  Rules& rules_;
  const ValueSpelling spelling_;
  std::optional<RuleId> space_, comma_, colon_, any_value_, any_string_, any_name_, any_object_;
};

}  // namespace gabbro::text::grammar
