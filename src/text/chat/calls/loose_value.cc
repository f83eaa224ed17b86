#include "src/text/chat/calls/loose_value.h"

#include <cctype>
#include <nlohmann/json.hpp>

namespace gabbro::text {
namespace {

using LooseJson = nlohmann::ordered_json;

constexpr int kDeepestLoose = 64;

class LooseReader {
 public:
  LooseReader(std::string_view text, std::string_view quote) : text_(text), quote_(quote) {}

  std::optional<LooseJson> read() {
    std::optional<LooseJson> value = read_value(0);
    skip_spaces();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  bool has(std::string_view part) const { return !part.empty() && text_.substr(at_).starts_with(part); }
  bool take(std::string_view part) {
    if (!has(part)) return false;
    at_ += part.size();
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  std::optional<LooseJson> read_value(int depth) {
    if (depth > kDeepestLoose) return std::nullopt;
    skip_spaces();
    if (take(quote_)) return read_until_quote();
    if (has("'") || has("\"")) return read_string();
    if (take("[")) return read_list(depth, "]");
    if (take("(")) return read_list(depth, ")");
    if (take("{")) return read_object(depth);
    return read_word();
  }

  std::optional<LooseJson> read_until_quote() {
    const size_t end = text_.find(quote_, at_);
    if (end == text_.npos) return std::nullopt;
    LooseJson value = std::string(text_.substr(at_, end - at_));
    at_ = end + quote_.size();
    return value;
  }

  std::optional<LooseJson> read_string() {
    const char mark = text_[at_++];
    std::string value;
    for (; at_ < text_.size() && text_[at_] != mark; ++at_) {
      if (text_[at_] != '\\') {
        value += text_[at_];
      } else if (!read_escape(value)) {
        return std::nullopt;
      }
    }
    if (at_ == text_.size()) return std::nullopt;
    ++at_;
    return value;
  }

  // At a backslash; leaves the last character of the escape. Unknown ones stay unchanged.
  bool read_escape(std::string& value) {
    if (++at_ == text_.size()) return false;
    const char c = text_[at_];
    constexpr std::string_view kNames = "nrtbf\\'\"", kValues = "\n\r\t\b\f\\'\"";
    if (const size_t known = kNames.find(c); known != kNames.npos) {
      value += kValues[known];
    } else if (c == 'u' || c == 'x') {
      const size_t digits = c == 'u' ? 4 : 2;
      std::string json = "\"\\u" + std::string(4 - digits, '0') + std::string(text_.substr(at_ + 1, digits)) + "\"";
      const LooseJson decoded = LooseJson::parse(json, nullptr, false);
      if (!decoded.is_string()) return false;
      value += decoded.get<std::string>();
      at_ += digits;
    } else if (c != '\n') {
      value += {'\\', c};
    }
    return true;
  }

  std::optional<LooseJson> read_list(int depth, std::string_view end) {
    LooseJson list = LooseJson::array();
    for (;;) {
      skip_spaces();
      if (take(end)) return list;
      std::optional<LooseJson> element = read_value(depth + 1);
      if (!element) return std::nullopt;
      list.push_back(std::move(*element));
      skip_spaces();
      if (!take(",") && !has(end)) return std::nullopt;
    }
  }

  std::optional<LooseJson> read_object(int depth) {
    LooseJson object = LooseJson::object();
    for (;;) {
      skip_spaces();
      if (take("}")) return object;
      const std::optional<std::string> key = read_key();
      skip_spaces();
      if (!key || !take(":")) return std::nullopt;
      std::optional<LooseJson> value = read_value(depth + 1);
      if (!value) return std::nullopt;
      object[*key] = std::move(*value);
      skip_spaces();
      if (!take(",") && !has("}")) return std::nullopt;
    }
  }

  std::optional<std::string> read_key() {
    std::optional<LooseJson> key;
    if (take(quote_)) {
      key = read_until_quote();
    } else if (has("'") || has("\"")) {
      key = read_string();
    } else {
      const size_t end = text_.find_first_of(":,{}[]()'\" \t\r\n", at_);
      if (end == text_.npos || end == at_) return std::nullopt;
      key = std::string(text_.substr(at_, end - at_));
      at_ = end;
    }
    if (!key) return std::nullopt;
    return key->get<std::string>();
  }

  std::optional<LooseJson> read_word() {
    const size_t end = std::min(text_.find_first_of(",:{}[]()'\" \t\r\n", at_), text_.size());
    const std::string word(text_.substr(at_, end - at_));
    at_ = end;
    if (word == "True") return true;
    if (word == "False") return false;
    if (word == "None") return LooseJson(nullptr);
    LooseJson value = LooseJson::parse(word, nullptr, false);
    if (value.is_discarded()) return std::nullopt;
    return value;
  }

  const std::string_view text_, quote_;
  size_t at_ = 0;
};

}  // namespace

std::optional<std::string> json_of_loose(std::string_view text, std::string_view quote) {
  const std::optional<LooseJson> value = LooseReader(text, quote).read();
  if (!value) return std::nullopt;
  return value->dump(-1, ' ', false, LooseJson::error_handler_t::replace);
}

}  // namespace gabbro::text
