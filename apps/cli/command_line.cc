#include "apps/cli/command_line.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>
#include <utility>

#include "apps/cli/argument_parser.h"
#include "apps/cli/command_spec.h"
#include "apps/cli/help.h"
#include "apps/cli/input_files.h"
#include "apps/cli/terminal.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    parts.push_back(names.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

template <class T>
constexpr bool kWhole = std::is_integral_v<T>;

// The numbers that the option takes, as an error names them; empty where only the type of its variable bounds them.
template <class T>
std::string wanted(const OptionSpec& option) {
  if (option.least && option.most) return fmt::format(": expected {} to {}", *option.least, *option.most);
  return std::is_same_v<T, uint64_t> ? ": expected 0 to 2^64 - 1" : "";
}

// Throws bad_input that calls the option `name`.
template <class T>
T parse_number(const OptionSpec& option, const std::string& name, const std::string& text) {
  if (text.empty()) throw bad_input("{}: the number is missing", name);
  if (std::is_unsigned_v<T> && text.front() == '-') throw bad_input("{}: {} must not be negative", name, text);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = end == text.data() + text.size();
  if (all && error == std::errc::result_out_of_range)
    throw bad_input("{}: {} is out of range{}", name, text, wanted<T>(option));
  if (!all || error != std::errc() || !std::isfinite(static_cast<double>(value)))
    throw bad_input("{}: '{}' is not a {}number", name, text, kWhole<T> ? "whole " : "");
  if constexpr (kWhole<T>) {
    if (option.least && std::cmp_less(value, *option.least))
      throw bad_input("{}: {} is out of range: expected {}", name, text, option.facts.range);
    if (option.most && std::cmp_greater(value, *option.most))
      throw bad_input("{}: {} is out of range: expected {} to {}", name, text, *option.least, *option.most);
  }
  return value;
}

void require_member(const OptionSpec& option, const std::string& name, const std::string& text) {
  const std::vector<std::string>& values = option.facts.values;
  if (values.empty() || std::ranges::find(values, text) != values.end()) return;
  const std::string meant = closest(text, values);
  throw Error(ErrorCode::kBadInput, fmt::format("{}: '{}' is not one of {}", name, text, fmt::join(values, ", ")),
              meant.empty() ? "" : fmt::format("did you mean {}?", meant));
}

void check_text(const OptionSpec& option, const std::string& name, const std::string& text) {
  if (text.empty() && !option.facts.is_text) throw bad_input("{}: the value is empty", name);
  require_member(option, name, text);
  if (option.check) option.check(text);
}

OptionSpec& add_value(CommandSpec& command, const std::string& names, const std::string& description,
                      const char* placeholder) {
  OptionSpec& option = command.add_option(names, description);
  option.facts.takes_value = !option.facts.short_names.empty() || !option.facts.long_names.empty();
  option.facts.value = placeholder;
  return option;
}

template <class T, class Target>
Option add_number(CommandSpec& command, const std::string& names, Target& value, const std::string& description) {
  OptionSpec& option = add_value(command, names, description, "N");
  option.assign = [&value](const OptionSpec& spec, const std::string& name, const std::string& text) {
    value = parse_number<T>(spec, name, text);
  };
  return Option(&option);
}

}  // namespace

Option Option::required() {
  option_->facts.required = true;
  return *this;
}

Option Option::optional() {
  option_->facts.required = false;
  return *this;
}

Option Option::placeholder(const std::string& name) {
  option_->facts.value = name;
  return *this;
}

Option Option::default_text(const std::string& text) {
  option_->facts.default_value = text;
  return *this;
}

Option Option::alias(const std::string& names) {
  for (const std::string& name : split(names)) {
    const bool off = name.starts_with('!');
    (off ? option_->off_aliases : option_->facts.aliases).push_back(name.substr(off));
  }
  if (!option_->set) option_->facts.takes_value = true;
  return *this;
}

// Help shows no bound that is the type's limit or beyond practical values.
Option Option::range(int64_t least, int64_t most) {
  constexpr int64_t kLargestShown = 100000;
  option_->least = least;
  option_->most = most;
  option_->facts.range = most > kLargestShown ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, most);
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_->facts.values = values;
  return *this;
}

Option Option::takes_rest() {
  option_->rest = true;
  return *this;
}

Option Option::file(FileUse use) {
  option_->file = use;
  return *this;
}

Option Option::takes_text() {
  option_->facts.is_text = true;
  return *this;
}

Option Option::check(std::function<void(const std::string&)> check) {
  option_->check = std::move(check);
  return *this;
}

bool Option::given() const { return option_->is_given(); }

Option Option::needs(Option other) {
  option_->needs.push_back(other.option_);
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes.push_back(other.option_);
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& description) {
  auto below = std::make_unique<CommandSpec>();
  below->name = name;
  below->description = description;
  below->parent = command_;
  OptionSpec& help = below->add_option("-h,--help", "Print this help and exit");
  help.shows_help = true;
  command_->commands.push_back(std::move(below));
  return Command(command_->commands.back().get());
}

void Command::alias(const std::string& name) { command_->aliases.push_back(name); }

void Command::requires_subcommand() { command_->needs_command = true; }

void Command::hide() { command_->hidden = true; }

void Command::footer(const std::string& text) { command_->footer += (command_->footer.empty() ? "" : " ") + text; }

void Command::example(const std::string& command_line) { command_->examples.push_back(command_line); }

void Command::runs(Action action) { command_->action = std::move(action); }

Option Command::flag(const std::string& names, bool& value, const std::string& description) {
  std::string on;
  std::vector<std::string> off;
  for (const std::string& name : split(names)) {
    if (name.starts_with('!')) {
      off.push_back(name.substr(1));
    } else {
      on += (on.empty() ? "" : ",") + name;
    }
  }
  OptionSpec& option = command_->add_option(on, description);
  option.off_names = std::move(off);
  option.set = [&value](bool wanted) { value = wanted; };
  return Option(&option);
}

Option Command::option(const std::string& names, std::string& value, const std::string& description) {
  OptionSpec& option = add_value(*command_, names, description, "TEXT");
  option.facts.default_value = value;
  option.assign = [&value](const OptionSpec& spec, const std::string& name, const std::string& text) {
    check_text(spec, name, text);
    value = text;
  };
  return Option(&option);
}

Option Command::option(const std::string& names, std::optional<std::string>& value, const std::string& description) {
  OptionSpec& option = add_value(*command_, names, description, "TEXT");
  option.assign = [&value](const OptionSpec& spec, const std::string& name, const std::string& text) {
    check_text(spec, name, text);
    value = text;
  };
  return Option(&option);
}

Option Command::option(const std::string& names, std::vector<std::string>& values, const std::string& description) {
  OptionSpec& option = add_value(*command_, names, description, "TEXT");
  option.repeats = true;
  option.assign = [&values](const OptionSpec& spec, const std::string& name, const std::string& text) {
    check_text(spec, name, text);
    if (spec.given.size() == 1) values.clear();  // the defaults
    values.push_back(text);
  };
  return Option(&option);
}

template <class T>
Option Command::number(const std::string& names, T& value, const std::string& description) {
  return add_number<T>(*command_, names, value, description).default_text(fmt::format("{}", value));
}

template <class T>
Option Command::number(const std::string& names, std::optional<T>& value, const std::string& description) {
  return add_number<T>(*command_, names, value, description);
}

template Option Command::number(const std::string&, int&, const std::string&);
template Option Command::number(const std::string&, int64_t&, const std::string&);
template Option Command::number(const std::string&, uint64_t&, const std::string&);
template Option Command::number(const std::string&, float&, const std::string&);
template Option Command::number(const std::string&, std::optional<int>&, const std::string&);
template Option Command::number(const std::string&, std::optional<float>&, const std::string&);
template Option Command::number(const std::string&, std::optional<uint64_t>&, const std::string&);

Option Command::numbers(const std::string& names, std::vector<int>& values, const std::string& description) {
  OptionSpec& option = add_value(*command_, names, description, "N,N");
  option.repeats = true;
  option.assign = [&values](const OptionSpec& spec, const std::string& name, const std::string& text) {
    for (const std::string& number : split(text)) values.push_back(parse_number<int>(spec, name, number));
  };
  return Option(&option);
}

void Command::accept(const std::string& names, Value value, const std::string& note) {
  OptionSpec& option = command_->add_option(names, "");
  option.hidden = option.repeats = true;
  option.note = note;
  option.facts.takes_value = value == Value::kOne;
  option.maybe_value = value == Value::kMaybe;
}

CommandFacts Command::describe() const { return facts_of(*command_); }

CommandLine::CommandLine(const std::string& program, const std::string& version, const std::string& description)
    : root_(std::make_unique<CommandSpec>()), version_(program + " " + version) {
  root_->name = program;
  root_->description = description;
  root_->needs_command = true;
  root_->add_option("-h,--help", "Print this help and exit").shows_help = true;
  root_->add_option("--version", "Print the version and exit").shows_version = true;
}

CommandLine::~CommandLine() = default;

int CommandLine::run(int argc, char** argv) {
  Command help = root().subcommand("help", "Print the help of a command");
  OptionSpec& words = add_value(*root_->commands.back(), "COMMAND", "The command: run, or bench llm", "");
  words.rest = words.repeats = true;
  words.assign = [this](const OptionSpec&, const std::string&, const std::string& text) { help_of_.push_back(text); };
  help.example("gabbro help run");
  help.runs([this] {
    print(help_page(facts_of(find_command(*root_, help_of_))));
    return 0;
  });

  const Parsed parsed = parse_arguments(*root_, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  if (parsed.wants == Parsed::Wants::kVersion) {
    print(version_ + "\n");
    return 0;
  }
  if (parsed.wants == Parsed::Wants::kHelp) {
    print(help_page(facts_of(*parsed.command)));
    return 0;
  }
  for (const std::string& note : parsed.notes) report("note", note);
  check_outputs(*parsed.command);
  return parsed.command->action();
}

}  // namespace gabbro::cli
