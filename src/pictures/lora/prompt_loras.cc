#include "src/pictures/lora/prompt_loras.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/quote.h"

namespace gabbro::pictures {
namespace {

constexpr std::string_view kBegin = "<lora:";

double strength_of(std::string_view text, std::string_view words) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    throw bad_input("{}: {} is not a strength", quote(words), quote(text));
  return value;
}

NamedLora read_lora_words(std::string_view words) {
  std::string_view inside = words.substr(kBegin.size(), words.size() - kBegin.size() - 1);
  std::vector<std::string_view> parts;
  while (true) {
    const size_t colon = std::min(inside.find(':'), inside.size());
    parts.push_back(inside.substr(0, colon));
    if (colon == inside.size()) break;
    inside.remove_prefix(colon + 1);
  }
  if (parts[0].empty() || parts.size() > 3) throw bad_input("{}: expected <lora:NAME:STRENGTH>", quote(words));
  NamedLora lora{.name = std::string(parts[0])};
  if (parts.size() > 1) lora.strength = strength_of(parts[1], words);
  if (parts.size() > 2 && strength_of(parts[2], words) != lora.strength)
    throw bad_input("{}: different strengths for text encoder and U-Net are not supported", quote(words));
  return lora;
}

}  // namespace

PromptLoras read_prompt_loras(std::string_view prompt) {
  PromptLoras result;
  while (true) {
    const size_t begin = prompt.find(kBegin), end = begin == prompt.npos ? begin : prompt.find('>', begin);
    if (end == prompt.npos) break;
    result.prompt += prompt.substr(0, begin);
    result.loras.push_back(read_lora_words(prompt.substr(begin, end + 1 - begin)));
    prompt.remove_prefix(end + 1);
  }
  result.prompt += prompt;
  return result;
}

std::string find_lora(const std::string& folder, const std::string& name) {
  namespace fs = std::filesystem;
  const bool is_name = name.find('/') == name.npos && !name.starts_with('.');
  std::error_code error;
  std::vector<std::string> found;
  const std::string wanted = name + ".safetensors";
  if (is_name) {
    for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error), end;
         !error && at != end; at.increment(error)) {
      if (at->path().filename() == wanted) found.push_back(at->path().string());
    }
  }
  if (error) throw bad_input("{}: {}", folder, error.message());
  if (found.empty()) throw bad_input("{}: no file {} in {}", quote("<lora:" + name + ">"), quote(wanted), folder);
  return *std::ranges::min_element(found, {}, [](const std::string& path) { return std::pair(path.size(), path); });
}

}  // namespace gabbro::pictures
