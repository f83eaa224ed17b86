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

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::string see_help(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  std::string path = command.get_name();
  for (; parent != nullptr; parent = parent->get_parent()) path = parent->get_name() + " " + path;
  return fmt::format("{} --help lists what there is", path);
}

// A word that no command or option takes.
UsageProblem unexpected(const CLI::App& command, const std::string& word) {
  const bool is_option = word.size() > 1 && word.front() == '-';
  const std::string name = is_option ? word.substr(0, word.find('=')) : word;
  const auto candidates = is_option ? names_of_options(command) : names_of_commands(command);
  const std::string meant = closest(name, candidates);
  const bool is_command = !is_option && !candidates.empty();
  UsageProblem problem;
  problem.message = is_option    ? fmt::format("unknown option {}", name)
                    : is_command ? fmt::format("unknown command '{}'", name)
                                 : fmt::format("unexpected argument '{}'", name);
  problem.hint = meant.empty() ? see_help(command) : fmt::format("did you mean {}?", meant);
  return problem;
}

}  // namespace

const CLI::App& chosen_command(const CLI::App& root) {
  const CLI::App* at = &root;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
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

UsageProblem explain(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& command = chosen_command(root);
  std::string message = first_line(error.what());
  const bool lacks_command = message == "A subcommand is required";
  if (lacks_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // The words left over may be the command's own, or the root's (before the command).
    for (const CLI::App* app : {&command, &root}) {
      const auto words = app->remaining(false);
      if (!words.empty()) return unexpected(*app, words.front());
    }
  }
  if (lacks_command) return {"a command is missing", see_help(command)};

  // CLI11's words for the two mistakes that are made most often, in ours.
  constexpr std::string_view kRequired = " is required", kConvert = "Could not convert: ";
  if (message.ends_with(kRequired)) {
    message = message.substr(0, message.size() - kRequired.size()) + " is missing";
  } else if (message.starts_with(kConvert) && message.find(" = ") != std::string::npos) {
    const size_t equals = message.find(" = ");
    message = fmt::format("{}: '{}' is not a number that it can take",
                          message.substr(kConvert.size(), equals - kConvert.size()), message.substr(equals + 3));
  }
  return {message, see_help(command)};
}

}  // namespace gabbro::cli
