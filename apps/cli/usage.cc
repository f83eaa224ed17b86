#include "apps/cli/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gabbro::cli {
namespace {

// Damerau-Levenshtein distance: an inserted, missing, wrong or swapped letter each counts one.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({last[j + 1] + 1, row[j] + 1, last[j] + (a[i] != b[j])});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

// Without leading dashes, in lower case, with dashes for underscores.
std::string bare(std::string_view name) {
  std::string out(name.substr(std::min(name.find_first_not_of('-'), name.size())));
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return out;
}

std::vector<std::string> option_names(const CommandFacts& command) {
  std::vector<std::string> names;
  for (const OptionFacts& option : command.options) {
    names.insert(names.end(), option.long_names.begin(), option.long_names.end());
    for (const std::string& alias : option.aliases) {
      if (alias.starts_with("--")) names.push_back(alias);
    }
  }
  return names;
}

Error unknown_option(const CommandFacts& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string message = fmt::format("unknown option {}", name);
  if (const std::string meant = closest(name, option_names(command)); !meant.empty())
    return Error(ErrorCode::kBadInput, message, fmt::format("did you mean {}?", meant));
  for (const CommandFacts& below : command.commands) {  // "gabbro --json devices"
    const std::vector<std::string> names = option_names(below);
    if (std::ranges::find(names, name) != names.end()) {
      return Error(ErrorCode::kBadInput, message,
                   fmt::format("options stand after the command: gabbro COMMAND {}", name));
    }
  }
  const bool takes_text = std::ranges::any_of(command.options, &OptionFacts::is_text);
  return Error(ErrorCode::kBadInput, message,
               see_help(command) + (takes_text ? "; -- before a text that begins with a dash" : ""));
}

}  // namespace

std::string see_help(const CommandFacts& command) {
  return fmt::format("gabbro {}{}--help lists its {}", command.path, command.path.empty() ? "" : " ",
                     command.commands.empty() ? "options" : "commands");
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;  // a longer name is not a typing mistake
  constexpr size_t kShortestPrefix = 2;
  const std::string name = bare(word);
  if (name.empty() || name.size() > kLongest) return {};
  if (name.size() >= kShortestPrefix) {
    for (const std::string& candidate : candidates) {
      if (bare(candidate).starts_with(name)) return candidate;
    }
  }
  std::string best;
  size_t least = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t d = distance(name, bare(candidate));
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

Error unexpected_word(const CommandFacts& command, const std::string& word) {
  const size_t end = std::min(word.find('='), word.size());
  const bool is_option = word.size() > 1 && word.front() == '-' && word.find_first_of(" \t\n\r") >= end;
  if (is_option) return unknown_option(command, word);
  if (command.commands.empty())
    return Error(ErrorCode::kBadInput, fmt::format("unexpected argument '{}'", word), see_help(command));
  std::vector<std::string> names;
  for (const CommandFacts& below : command.commands) {
    names.push_back(below.name);
    names.insert(names.end(), below.aliases.begin(), below.aliases.end());
  }
  const std::string meant = closest(word, names);
  return Error(ErrorCode::kBadInput, fmt::format("unknown command '{}'", word),
               meant.empty() ? see_help(command) : fmt::format("did you mean {}?", meant));
}

}  // namespace gabbro::cli
