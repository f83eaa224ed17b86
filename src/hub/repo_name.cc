#include "src/hub/repo_name.h"

#include <algorithm>
#include <map>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"
#include "src/hub/text.h"

namespace gabbro::hub {

extern const std::string_view kShortNames;  // short_names.cc.in

namespace {

constexpr size_t kLongestName = 96, kLongestRevision = 200, kLongestTag = 200;

bool is_name_character(char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; }

// One part of "owner/name".
bool is_name(std::string_view name) {
  const auto at_the_edge = [](char c) { return c == '-' || c == '.'; };
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, is_name_character) &&
         !at_the_edge(name.front()) && !at_the_edge(name.back());
}

bool is_id(std::string_view id) {
  const size_t slash = id.find('/');
  return slash != std::string_view::npos && is_name(id.substr(0, slash)) && is_name(id.substr(slash + 1)) &&
         id.find("--") == std::string_view::npos && id.find("..") == std::string_view::npos && !id.ends_with(".git");
}

// Also the path of a file in the repository.
bool is_tag(std::string_view tag) {
  return tag.size() <= kLongestTag && std::ranges::all_of(split(tag, '/'), [](std::string_view part) {
           return !part.empty() && part != ".." &&
                  std::ranges::all_of(part, [](char c) { return is_name_character(c) || c == '+' || c == ' '; });
         });
}

bool is_model_file(std::string_view text) {
  const std::string name = lower_case(text);
  return name.ends_with(".gguf") || name.ends_with(".safetensors");
}

std::map<std::string, std::string> read_short_names() {
  std::map<std::string, std::string> names;
  for (const std::string_view line : split(kShortNames, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    const size_t space = line.find(' ');
    names.emplace(line.substr(0, space), line.substr(line.find_first_not_of(' ', space)));
  }
  return names;
}

}  // namespace

std::string RepoName::text() const {
  return id + (revision.empty() ? "" : "@" + revision) + (tag.empty() ? "" : ":" + tag);
}

bool is_revision(std::string_view text) {
  if (text.empty() || text.size() > kLongestRevision) return false;
  return std::ranges::all_of(split(text, '/'), [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '-' && part.find("..") == std::string_view::npos &&
           std::ranges::all_of(part, [](char c) { return is_name_character(c) || c == '+'; });
  });
}

bool is_commit(std::string_view text) { return text.size() == 40 && std::ranges::all_of(text, is_hex_digit); }
bool is_sha256(std::string_view text) { return text.size() == 64 && std::ranges::all_of(text, is_hex_digit); }

std::optional<RepoName> parse_repo_name(std::string_view text) {
  for (const std::string_view scheme : {"https://", "http://", "hf://"}) {
    if (!text.starts_with(scheme)) continue;
    text.remove_prefix(scheme.size());
    break;
  }
  for (const std::string_view host : {"huggingface.co/", "hf.co/", "models/"}) {
    const bool is_host = text.starts_with(host) && std::ranges::count(text, '/') > 1;
    if (is_host) text.remove_prefix(host.size());
  }
  if (text.ends_with('/')) text.remove_suffix(1);
  RepoName name;
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    name.tag = text.substr(colon + 1);
    if (!is_tag(name.tag)) return {};
    text = text.substr(0, colon);
  }
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    name.revision = text.substr(at + 1);
    if (!is_revision(name.revision)) return {};
    text = text.substr(0, at);
  }
  if (!is_id(text) || is_model_file(text)) return {};
  name.id = text;
  return name;
}

std::optional<RepoName> find_short_name(std::string_view name) {
  static const std::map<std::string, std::string> names = read_short_names();
  const auto found = names.find(lower_case(name));
  return found != names.end() ? parse_repo_name(found->second) : std::nullopt;
}

RepoName require_repo_name(std::string_view text) {
  if (auto name = find_short_name(text)) return *name;
  if (auto name = parse_repo_name(text)) return *name;
  throw Error(ErrorCode::kBadInput, fmt::format("{} is not the name of a model on the Hub", quote(text)),
              "names are owner/name, owner/name:q4_k_m or owner/name@revision");
}

}  // namespace gabbro::hub
