#include "src/server/http/url.h"

#include <algorithm>
#include <random>

namespace gabbro::server {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_alphanumeric(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

void split_target(std::string_view target, std::string& path, std::string& query) {
  const size_t mark = target.find('?');
  query = mark == target.npos ? "" : std::string(target.substr(mark + 1));
  const std::string_view raw = target.substr(0, mark);
  path.clear();
  for (size_t i = 0; i < raw.size(); ++i) {
    const int high = raw[i] == '%' && i + 2 < raw.size() ? digit_of(raw[i + 1]) : -1;
    const int low = high >= 0 ? digit_of(raw[i + 2]) : -1;
    if (low < 0) {
      path += raw[i];
      continue;
    }
    path += static_cast<char>(high * 16 + low);
    i += 2;
  }
}

bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '_' || c == '-'; });
}

std::string random_id(std::string_view prefix) {
  constexpr std::string_view kCharacters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  thread_local std::mt19937_64 source{std::random_device{}()};
  std::uniform_int_distribution<size_t> place(0, kCharacters.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kCharacters[place(source)];
  return id;
}

}  // namespace gabbro::server
