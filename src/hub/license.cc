#include "src/hub/license.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "src/hub/text.h"

namespace gabbro::hub {
namespace {

constexpr size_t kMostOfCard = 64 << 10, kMostOfField = 200;

std::string beginning_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostOfCard, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// The value of "key: value", without quotes.
std::string value_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') return "";
  std::string_view value = trim(line.substr(key.size() + 1));
  const bool is_quoted =
      value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front();
  if (is_quoted) value = value.substr(1, value.size() - 2);
  return std::string(value.substr(0, kMostOfField));
}

}  // namespace

std::string license_of_card(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line, license, name, link;
  if (!std::getline(lines, line) || trim(line) != "---") return "";
  while (std::getline(lines, line) && trim(line) != "---") {
    if (license.empty()) license = value_of(line, "license");
    if (name.empty()) name = value_of(line, "license_name");
    if (link.empty()) link = value_of(line, "license_link");
  }
  if (license != "other" || name.empty()) return license;
  return link.empty() ? name : name + " (" + link + ")";
}

std::string license_of(const std::string& folder, const std::vector<RepoFile>& files) {
  std::string found;
  for (const RepoFile& file : files) {
    if (lower_case(file.path) == "readme.md") found = license_of_card(beginning_of(folder + "/" + file.path));
  }
  if (!found.empty()) return found;
  for (const RepoFile& file : files) {
    if (!lower_case(file.path).starts_with("license") || file.path.find('/') != std::string::npos) continue;
    std::istringstream lines(beginning_of(folder + "/" + file.path));
    for (std::string line; std::getline(lines, line);) {
      const std::string_view first = trim(line);
      if (!first.empty()) return std::string(first.substr(0, kMostOfField));
    }
  }
  return "";
}

}  // namespace gabbro::hub
