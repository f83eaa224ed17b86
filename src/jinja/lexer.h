// Template source to tokens, with the whitespace rules of trim_blocks and lstrip_blocks applied.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/jinja/value.h"

namespace gabbro::jinja {

enum class TokenKind {
  kData,  // text between tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // of data, a name or an operator; the value of a string
  Value number;      // of an integer or a float
};

// Throws template_error for what Jinja's lexer rejects.
std::vector<Token> tokenize(std::string_view source);

// How messages name a token, as in "expected token 'x', got 'y'".
std::string describe(const Token& token);

}  // namespace gabbro::jinja
