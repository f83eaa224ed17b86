#include "src/backend/discovery/fields.h"

#include <charconv>

namespace gabbro::discovery {
namespace {

constexpr std::string_view kSpaces = " \t\r";

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin));
}

}  // namespace

std::optional<uint64_t> parse_number(std::string_view text) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, hexadecimal ? 16 : 10);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Fields parse_fields(std::string_view text, char separator) {
  Fields fields;
  for (const std::string& line : split(text, "\n")) {
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    fields.emplace(trimmed(std::string_view(line).substr(0, at)), trimmed(std::string_view(line).substr(at + 1)));
  }
  return fields;
}

std::string text_field(const Fields& fields, std::string_view key) {
  const auto found = fields.find(key);
  return found != fields.end() ? found->second : std::string();
}

uint64_t number_field(const Fields& fields, std::string_view key) {
  return parse_number(text_field(fields, key)).value_or(0);
}

}  // namespace gabbro::discovery
