#include "apps/cli/command_spec.h"

#include <algorithm>

namespace gabbro::cli {

std::string OptionSpec::name() const {
  if (!given_as.empty()) return given_as;
  if (!facts.argument.empty()) return facts.argument;
  if (!facts.long_names.empty()) return facts.long_names.front();
  return facts.short_names.empty() ? facts.aliases.front() : facts.short_names.front();
}

bool OptionSpec::turns_off(const std::string& name_given) const {
  const auto has = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, with_dashes(name_given)) != names.end();
  };
  return has(off_names) || has(off_aliases);
}

OptionSpec& CommandSpec::add_option(const std::string& names, const std::string& option_description) {
  auto option = std::make_unique<OptionSpec>();
  option->facts.description = option_description;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const std::string part = names.substr(at, end - at);
    if (part.starts_with("--")) {
      option->facts.long_names.push_back(part);
    } else if (part.starts_with('-')) {
      option->facts.short_names.push_back(part);
    } else {
      option->facts.argument = part;
    }
    at = end + 1;
  }
  options.push_back(std::move(option));
  return *options.back();
}

CommandSpec* CommandSpec::find_command(const std::string& word) const {
  for (const auto& below : commands) {
    if (below->name == word || std::ranges::find(below->aliases, word) != below->aliases.end()) return below.get();
  }
  return nullptr;
}

std::string with_dashes(const std::string& name) {
  std::string out = name;
  std::ranges::replace(out, '_', '-');
  return out;
}

CommandFacts facts_of(const CommandSpec& command) {
  CommandFacts facts{.name = command.name,
                     .description = command.description,
                     .aliases = command.aliases,
                     .examples = command.examples,
                     .footer = command.footer};
  for (const CommandSpec* at = &command; at->parent != nullptr; at = at->parent)
    facts.path = at->name + (facts.path.empty() ? "" : " ") + facts.path;
  for (const auto& option : command.options) {
    if (option->hidden) continue;
    facts.options.push_back(option->facts);
    std::vector<std::string>& names = facts.options.back().long_names;
    names.insert(names.end(), option->off_names.begin(), option->off_names.end());
  }
  for (const auto& below : command.commands) {
    if (!below->hidden) facts.commands.push_back(facts_of(*below));
  }
  return facts;
}

}  // namespace gabbro::cli
