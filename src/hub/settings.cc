#include "src/hub/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "src/base/error.h"
#include "src/base/text_file.h"
#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

constexpr size_t kLongestToken = 8192;

bool is_true(const std::string& value) {
  const std::string text = lower_case(value);
  return text == "1" || text == "on" || text == "yes" || text == "true";
}

std::string home_of_hub() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return expand_path(home);
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/huggingface";
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface";
}

// A token becomes part of a header: only visible ASCII is allowed.
std::string checked_token(std::string_view text, const std::string& source) {
  std::string token(trim(text));
  if (!std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; }))
    throw bad_input("{}: is not a token of the Hub", source);
  return token;
}

void read_token(Settings& settings) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = checked_token(variable(name), name);
    settings.token_source = name;
    if (!settings.token.empty()) return;
  }
  const std::string path =
      variable("HF_TOKEN_PATH").empty() ? home_of_hub() + "/token" : expand_path(variable("HF_TOKEN_PATH"));
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;
  settings.token = checked_token(read_text_file(path, kLongestToken), path);
  settings.token_source = path;
}

std::string checked_endpoint(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const bool address = endpoint.starts_with("https://") || endpoint.starts_with("http://");
  if (!address || std::ranges::any_of(endpoint, [](char c) { return c <= ' ' || c == 0x7f || c == '?' || c == '#'; }))
    throw bad_input("HF_ENDPOINT: '{}' is not an address such as https://huggingface.co", endpoint);
  return endpoint;
}

long checked_seconds(const std::string& text, long otherwise) {
  if (text.empty()) return otherwise;
  long seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 1 || seconds > 86400)
    throw bad_input("HF_HUB_DOWNLOAD_TIMEOUT: '{}' is not a number of seconds", text);
  return seconds;
}

}  // namespace

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string expand_path(const std::string& path) {
  std::string out;
  for (size_t at = 0; at < path.size();) {
    if (at == 0 && path[0] == '~' && (path.size() == 1 || path[1] == '/')) {
      out += variable("HOME");
      at = 1;
      continue;
    }
    const bool braces = path.compare(at, 2, "${") == 0;
    size_t end = at + (braces ? 2 : 1);
    while (path[at] == '$' && end < path.size() && (is_letter_or_digit(path[end]) || path[end] == '_')) ++end;
    const std::string name = path.substr(at + 1 + (braces ? 1 : 0), end - at - 1 - (braces ? 1 : 0));
    const bool named = path[at] == '$' && !name.empty() && (!braces || path.compare(end, 1, "}") == 0) &&
                       std::getenv(name.c_str()) != nullptr;
    out += named ? variable(name.c_str()) : path.substr(at, 1);
    at = named ? end + (braces ? 1 : 0) : at + 1;
  }
  return out;
}

std::string cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string folder = variable(name); !folder.empty()) return expand_path(folder);
  }
  const std::string home = home_of_hub();
  return home.empty() ? "" : home + "/hub";
}

Settings read_settings() {
  Settings settings;
  settings.cache = cache_folder();
  const std::string endpoint = variable("HF_ENDPOINT");
  settings.endpoint = checked_endpoint(endpoint.empty() ? "https://huggingface.co" : endpoint);
  settings.offline = is_true(variable("HF_HUB_OFFLINE")) || is_true(variable("TRANSFORMERS_OFFLINE"));
  settings.stall_seconds = checked_seconds(variable("HF_HUB_DOWNLOAD_TIMEOUT"), settings.stall_seconds);
  if (!is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) read_token(settings);
  return settings;
}

}  // namespace gabbro::hub
