#include "src/pictures/prompts/weighted_text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

namespace gabbro::pictures {
namespace {

constexpr float kEmphasis = 1.1f;

// A decimal number with spaces around it; nothing for anything else.
std::optional<float> parse_weight(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  const bool whole = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

// A1111's rules: brackets multiply the weights of all parts since they were opened.
class A1111Parser {
 public:
  std::vector<WeightedText> parse(std::string_view prompt) {
    for (size_t i = 0; i < prompt.size();) i += take(prompt.substr(i));
    // Brackets that nothing closes still count, as A1111 has them.
    for (const size_t first : round_) multiply(first, kEmphasis);
    for (const size_t first : square_) multiply(first, 1 / kEmphasis);
    return merged();
  }

 private:
  // Takes the next characters, and returns how many.
  size_t take(std::string_view rest) {
    const char c = rest[0];
    if (c == '\\' && rest.size() > 1 && std::string_view("()[]\\").find(rest[1]) != std::string_view::npos) {
      add(rest.substr(1, 1));
      return 2;
    }
    if (c == '(' || c == '[') {
      (c == '(' ? round_ : square_).push_back(parts_.size());
      return 1;
    }
    if (c == ':' && !round_.empty()) {
      const size_t close = rest.find(')');
      const auto weight = close != rest.npos ? parse_weight(rest.substr(1, close - 1)) : std::nullopt;
      if (weight) {
        multiply(round_.back(), *weight);
        round_.pop_back();
        return close + 1;
      }
    }
    if ((c == ')' && !round_.empty()) || (c == ']' && !square_.empty())) {
      std::vector<size_t>& open = c == ')' ? round_ : square_;
      multiply(open.back(), c == ')' ? kEmphasis : 1 / kEmphasis);
      open.pop_back();
      return 1;
    }
    if (rest.starts_with("BREAK") && is_word(rest)) {
      parts_.push_back({.text = "", .begins_chunk = true});
      before_ = 'K';
      return 5;
    }
    add(rest.substr(0, 1));
    return 1;
  }

  bool is_word(std::string_view rest) const {
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    return !is_letter(before_) && (rest.size() == 5 || !is_letter(rest[5]));
  }

  void add(std::string_view text) {
    before_ = text.back();
    // A bracket that is open begins a separate part.
    const size_t least = std::max(round_.empty() ? 0 : round_.back(), square_.empty() ? 0 : square_.back());
    const bool continues = parts_.size() > least && parts_.size() > closed_ && !parts_.back().begins_chunk;
    if (continues) {
      parts_.back().text += text;
    } else {
      parts_.push_back({.text = std::string(text)});
    }
  }

  void multiply(size_t first, float weight) {
    for (size_t i = first; i < parts_.size(); ++i) parts_[i].weight *= weight;
    closed_ = parts_.size();
  }

  std::vector<WeightedText> merged() {
    std::vector<WeightedText> result;
    bool begins = false;
    for (WeightedText& part : parts_) {
      if (part.begins_chunk) {
        begins = true;
      } else if (!begins && !result.empty() && result.back().weight == part.weight) {
        result.back().text += part.text;
      } else {
        part.begins_chunk = begins;
        begins = false;
        result.push_back(std::move(part));
      }
    }
    return result;
  }

  std::vector<WeightedText> parts_;
  std::vector<size_t> round_, square_;  // parts before each open bracket
  size_t closed_ = 0;                   // parts that a bracket has closed over: nothing is added to them
  char before_ = ' ';
};

// The end of the bracket that opens at 0, which matches it; npos: there is none.
size_t matching_bracket(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')' && --depth == 0) {
      return i;
    }
  }
  return text.npos;
}

constexpr int kMostDepth = 64;  // of brackets; deeper ones are text

void parse_comfy(std::string_view text, float weight, int depth, std::vector<WeightedText>& parts) {
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) parts.push_back({.text = std::move(plain), .weight = weight});
    plain.clear();
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("\\(") || rest.starts_with("\\)")) {
      plain += rest[1];
      ++i;
      continue;
    }
    const size_t close = rest[0] == '(' && depth < kMostDepth ? matching_bracket(rest) : rest.npos;
    if (close == rest.npos) {
      plain += rest[0];
      continue;
    }
    flush();
    std::string_view inside = rest.substr(1, close - 1);
    float inner = weight * kEmphasis;
    const size_t colon = inside.rfind(':');
    if (colon != inside.npos && colon > 0) {
      if (const auto given = parse_weight(inside.substr(colon + 1))) {
        inner = *given;
        inside = inside.substr(0, colon);
      }
    }
    parse_comfy(inside, inner, depth + 1, parts);
    i += close;
  }
  flush();
}

// "one|other", "from:to:0.5", "to:12", between brackets that have no others inside.
bool changes_with_steps(std::string_view inside) {
  if (inside.find('|') != inside.npos) return true;
  const size_t colon = inside.rfind(':');
  return colon != inside.npos && parse_weight(inside.substr(colon + 1)).has_value();
}

}  // namespace

std::vector<std::string> special_words(std::string_view prompt, PromptSyntax syntax) {
  std::vector<std::string> found;
  if (syntax != PromptSyntax::kA1111) return found;
  size_t open = prompt.npos;
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] == '\\') {
      ++i;
    } else if (prompt[i] == '[') {
      open = i;
    } else if (prompt[i] == ']' && open != prompt.npos) {
      const std::string_view inside = prompt.substr(open + 1, i - open - 1);
      if (changes_with_steps(inside)) found.push_back("[" + std::string(inside) + "]");
      open = prompt.npos;
    }
  }
  const auto is_letter = [&](size_t i) {
    return i < prompt.size() && (std::isalnum(static_cast<unsigned char>(prompt[i])) != 0 || prompt[i] == '_');
  };
  for (size_t at = prompt.find("AND"); at != prompt.npos; at = prompt.find("AND", at + 3)) {
    if ((at > 0 && is_letter(at - 1)) || is_letter(at + 3)) continue;
    found.emplace_back("AND");
    break;
  }
  return found;
}

std::vector<WeightedText> parse_prompt(std::string_view prompt, PromptSyntax syntax) {
  if (syntax == PromptSyntax::kA1111) return A1111Parser().parse(prompt);
  std::vector<WeightedText> parts;
  if (syntax == PromptSyntax::kComfyUi) {
    parse_comfy(prompt, 1, 0, parts);
  } else if (!prompt.empty()) {
    parts.push_back({.text = std::string(prompt)});
  }
  return parts;
}

}  // namespace gabbro::pictures
