#include "apps/cli/argument_parser.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "apps/cli/usage.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 128;
}

std::string name_part(const std::string& argument) { return argument.substr(0, argument.find('=')); }

bool begins_as_option(const std::string& argument) {
  const size_t dashes = argument.starts_with("--") ? 2 : 1;
  return argument.starts_with('-') && argument.size() > dashes && is_letter(argument[dashes]);
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// The option of this name, as written or with dashes for underscores; null if there is none.
OptionSpec* find_option(const CommandSpec& command, const std::string& given) {
  for (const std::string& name : {given, with_dashes(given)}) {
    for (const auto& option : command.options) {
      const OptionFacts& f = option->facts;
      if (holds(f.short_names, name) || holds(f.long_names, name) || holds(f.aliases, name) ||
          option->turns_off(name)) {
        return option.get();
      }
    }
  }
  return nullptr;
}

// -n5: the option of the first letter, if it takes a value.
OptionSpec* find_attached(const CommandSpec& command, const std::string& argument) {
  if (argument.starts_with("--") || argument.size() < 3) return nullptr;
  OptionSpec* option = find_option(command, argument.substr(0, 2));
  return option != nullptr && option->facts.takes_value ? option : nullptr;
}

class Parser {
 public:
  Parser(CommandSpec& root, const std::vector<std::string>& arguments) : at_(&root), arguments_(arguments) {}

  Parsed parse();

 private:
  void take_word(const std::string& word);
  void take_option(const std::string& argument);
  void take_value(OptionSpec& option, const std::string& name, const std::string& value);
  std::string next_value(const std::string& name);
  void assign_words();
  void check_relations() const;
  bool is_text(const std::string& argument) const;

  CommandSpec* at_;
  const std::vector<std::string>& arguments_;
  size_t next_ = 0;
  std::vector<std::string> words_;
  Parsed parsed_;
};

Parsed Parser::parse() {
  bool only_text = false;
  while (next_ < arguments_.size() && parsed_.wants == Parsed::Wants::kAction) {
    const std::string& argument = arguments_[next_++];
    if (!only_text && argument == "--") {
      only_text = true;
    } else if (only_text || is_text(argument)) {
      take_word(argument);
    } else {
      take_option(argument);
    }
  }
  parsed_.command = at_;
  if (parsed_.wants != Parsed::Wants::kAction) return std::move(parsed_);
  if (at_->needs_command) throw Error(ErrorCode::kBadInput, "a command is missing", see_help(facts_of(*at_)));
  assign_words();
  check_relations();
  return std::move(parsed_);
}

bool Parser::is_text(const std::string& argument) const {
  if (!begins_as_option(argument)) return true;
  const std::string name = name_part(argument);
  const size_t space = name.find_first_of(" \t\n\r");
  if (space == std::string::npos) return false;
  const std::string first = name.substr(0, space);
  if (find_option(*at_, first) == nullptr) return true;
  throw Error(ErrorCode::kBadInput, fmt::format("'{}' is one argument that begins with the option {}", argument, first),
              fmt::format("give {} and its value as two arguments, or write -- before a text that begins so", first));
}

void Parser::take_word(const std::string& word) {
  if (at_->commands.empty()) {
    words_.push_back(word);
    return;
  }
  CommandSpec* below = at_->find_command(word);
  if (below == nullptr) throw unexpected_word(facts_of(*at_), word);
  at_ = below;
}

// The next argument as a value. An option of this command is refused: the value was forgotten.
std::string Parser::next_value(const std::string& name) {
  const CommandFacts facts = facts_of(*at_);
  if (next_ == arguments_.size()) throw Error(ErrorCode::kBadInput, name + ": the value is missing", see_help(facts));
  const std::string& value = arguments_[next_];
  if (begins_as_option(value) && find_option(*at_, name_part(value)) != nullptr) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}: the value is missing before {}", name, value),
                fmt::format("{}={} takes it for the value", name, value));
  }
  ++next_;
  return value;
}

void Parser::take_value(OptionSpec& option, const std::string& name, const std::string& value) {
  if (!option.repeats && option.is_given() && option.given.front() != value) {
    throw bad_input("{} is given twice: '{}' and '{}'{}", name, option.given.front(), value,
                    option.given_as == name ? "" : fmt::format(" ({} is the same option)", option.given_as));
  }
  option.given_as = name;
  option.given.push_back(value);
  if (option.assign) option.assign(option, name, value);
}

void Parser::take_option(const std::string& argument) {
  const size_t equals = argument.find('=');
  std::string name = name_part(argument);
  std::optional<std::string> attached;
  if (equals != std::string::npos) attached = argument.substr(equals + 1);
  OptionSpec* option = find_option(*at_, name);
  if (option == nullptr) {
    option = find_attached(*at_, argument);
    if (option == nullptr) throw unexpected_word(facts_of(*at_), argument);
    name = argument.substr(0, 2);
    attached = argument.substr(2);
  }
  if (!option->note.empty()) parsed_.notes.push_back(fmt::format("{}: {}", name, option->note));
  if (option->facts.takes_value) {
    take_value(*option, name, attached ? *attached : next_value(name));
    return;
  }
  if (option->maybe_value) {
    const bool follows =
        next_ < arguments_.size() && holds({"on", "off", "auto"}, arguments_[next_]) && !attached.has_value();
    next_ += follows;
    return;
  }
  if (attached) throw bad_input("{} takes no value: '{}'", name, *attached);
  option->given_as = name;
  if (option->shows_help) parsed_.wants = Parsed::Wants::kHelp;
  if (option->shows_version) parsed_.wants = Parsed::Wants::kVersion;
  if (option->set) option->set(!option->turns_off(name));
}

void Parser::assign_words() {
  size_t word = 0;
  for (const auto& option : at_->options) {
    if (option->facts.argument.empty() || option->is_given()) continue;
    const size_t end = option->rest ? words_.size() : std::min(word + 1, words_.size());
    for (; word < end; ++word) take_value(*option, option->facts.argument, words_[word]);
  }
  if (word < words_.size()) throw unexpected_word(facts_of(*at_), words_[word]);
}

void Parser::check_relations() const {
  for (const auto& option : at_->options) {
    if (!option->is_given()) continue;
    for (const OptionSpec* other : option->excludes) {
      if (other->is_given()) throw bad_input("{} and {} cannot be given together", option->name(), other->name());
    }
    for (const OptionSpec* other : option->needs) {
      if (!other->is_given()) throw bad_input("{} needs {}", option->name(), other->name());
    }
  }
  for (const auto& option : at_->options) {
    if (option->facts.required && !option->is_given())
      throw Error(ErrorCode::kBadInput, option->name() + " is missing", see_help(facts_of(*at_)));
  }
}

}  // namespace

Parsed parse_arguments(CommandSpec& root, const std::vector<std::string>& arguments) {
  return Parser(root, arguments).parse();
}

const CommandSpec& find_command(const CommandSpec& root, const std::vector<std::string>& words) {
  const CommandSpec* at = &root;
  for (const std::string& word : words) {
    const CommandSpec* below = at->find_command(word);
    if (below == nullptr) throw unexpected_word(facts_of(*at), word);
    at = below;
  }
  return *at;
}

}  // namespace gabbro::cli
