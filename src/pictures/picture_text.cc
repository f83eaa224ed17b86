#include "src/pictures/picture_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gabbro::pictures {
namespace {

constexpr std::string_view kNegative = "Negative prompt:";
constexpr size_t kLeastSettings = 3;  // that make a line one of settings

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

// A value that would end early is a JSON string.
std::string quoted_if_needed(const std::string& value) {
  if (value.find_first_of(",:\n") == value.npos) return value;
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string unquoted(const std::string& value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') return value;
  const nlohmann::json parsed = nlohmann::json::parse(value, nullptr, false);
  return parsed.is_string() ? parsed.get<std::string>() : value;
}

bool is_key_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-/ ").find(c) != std::string_view::npos;
}

// "Key: value, Key: "a, b", ..."
std::vector<std::pair<std::string, std::string>> read_settings(std::string_view line) {
  std::vector<std::pair<std::string, std::string>> settings;
  while (!line.empty()) {
    const size_t colon = line.find(':');
    if (colon == line.npos) return settings;
    // The key is what stands before the colon, back to anything that no key has.
    size_t first = colon;
    while (first > 0 && is_key_character(line[first - 1])) --first;
    const std::string key = trimmed(line.substr(first, colon - first));
    line.remove_prefix(colon + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    size_t end = std::min(line.find(','), line.size());
    if (line.starts_with('"')) {
      size_t quote = 1;
      while (quote < line.size() && line[quote] != '"') quote += line[quote] == '\\' ? 2 : 1;
      if (quote < line.size()) end = quote + 1;
    }
    if (!key.empty()) settings.emplace_back(key, unquoted(trimmed(line.substr(0, end))));
    line.remove_prefix(std::min(end, line.size()));
    if (line.starts_with(',')) line.remove_prefix(1);
  }
  return settings;
}

}  // namespace

const std::string* PictureText::setting(std::string_view name) const {
  const auto found = std::ranges::find(settings, name, [](const auto& pair) { return std::string_view(pair.first); });
  return found != settings.end() ? &found->second : nullptr;
}

std::string write_picture_text(const PictureText& text) {
  std::string written = text.prompt;
  if (!text.negative.empty()) written += "\n" + std::string(kNegative) + " " + text.negative;
  std::string line;
  for (const auto& [key, value] : text.settings)
    line += (line.empty() ? "" : ", ") + key + ": " + quoted_if_needed(value);
  return written + "\n" + line;
}

PictureText read_picture_text(std::string_view text) {
  PictureText result;
  std::string all = trimmed(text);
  const size_t last = all.rfind('\n') == all.npos ? 0 : all.rfind('\n') + 1;
  if (auto settings = read_settings(std::string_view(all).substr(last)); settings.size() >= kLeastSettings) {
    result.settings = std::move(settings);
    all.resize(last > 0 ? last - 1 : 0);
  }
  // The negative prompt begins with its line, and may have more of them.
  const size_t begin = all.starts_with(kNegative) ? 0 : all.find("\n" + std::string(kNegative));
  result.prompt = trimmed(std::string_view(all).substr(0, begin));
  if (begin != all.npos) {
    const size_t after = all.find(':', begin) + 1;
    result.negative = trimmed(std::string_view(all).substr(after));
  }
  return result;
}

}  // namespace gabbro::pictures
