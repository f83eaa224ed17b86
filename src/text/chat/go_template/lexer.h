// A template as texts and actions, and an action as tokens. Space next to "{{- " and " -}}" is trimmed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gabbro::text::go {

struct Token {
  enum class Kind { kField, kVariable, kName, kNumber, kString, kChar, kSign, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;          // a name without "." or "$"; the value of a string
  bool after_space = false;  // space before it
};

struct Piece {
  bool is_action = false;
  std::string text;           // of a text
  std::vector<Token> tokens;  // of an action; the last one is kEnd
  int line = 1;               // where it begins
};

// Throws bad_input that names the line.
std::vector<Piece> split_template(const std::string& source);

}  // namespace gabbro::text::go
