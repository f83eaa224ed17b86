#include "apps/cli/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace gabbro::cli {
namespace {

// Damerau's distance: inserted, left out, wrong and swapped letters each count one.
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

}  // namespace

std::string see_help(const CommandFacts& command) {
  return fmt::format("gabbro {}{}--help lists what there is", command.path, command.path.empty() ? "" : " ");
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 64;  // nobody types a longer name by mistake
  if (word.size() > kLongest) return {};
  std::string best;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t d = distance(word, candidate);
    if (d < least) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

Error unexpected_word(const CommandFacts& command, const std::string& word) {
  const bool is_option = word.size() > 1 && word.front() == '-';
  const std::string name = is_option ? word.substr(0, word.find('=')) : word;
  std::vector<std::string> candidates;
  if (is_option) {
    for (const OptionFacts& option : command.options)
      candidates.insert(candidates.end(), option.long_names.begin(), option.long_names.end());
  } else {
    for (const CommandFacts& below : command.commands) candidates.push_back(below.name);
  }
  const bool is_command = !is_option && !candidates.empty();
  const std::string meant = closest(name, candidates);
  return Error(ErrorCode::kBadInput,
               is_option    ? fmt::format("unknown option {}", name)
               : is_command ? fmt::format("unknown command '{}'", name)
                            : fmt::format("unexpected argument '{}'", name),
               meant.empty() ? see_help(command) : fmt::format("did you mean {}?", meant));
}

}  // namespace gabbro::cli
