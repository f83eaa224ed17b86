#include "apps/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <type_traits>
#include <utility>

#include "apps/cli/terminal.h"
#include "apps/cli/usage.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

OptionFacts facts_of(const CLI::Option& option) {
  OptionFacts facts;
  for (const std::string& name : option.get_snames()) facts.short_names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.long_names.push_back("--" + name);
  if (option.get_positional()) {
    facts.argument = option.get_name(true);
  } else if (option.get_type_size() > 0) {
    facts.takes_value = true;
    facts.value = option.get_type_name();
  }
  facts.description = option.get_description();
  facts.default_value = option.get_default_str();
  return facts;
}

CommandFacts facts_of(const CLI::App& app) {
  CommandFacts facts{.name = app.get_name(), .description = app.get_description()};
  for (const CLI::App* at = &app; at->get_parent() != nullptr; at = at->get_parent())
    facts.path = at->get_name() + (facts.path.empty() ? "" : " ") + facts.path;
  for (const CLI::Option* option : app.get_options()) facts.options.push_back(facts_of(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) facts.commands.push_back(facts_of(*command));
  }
  return facts;
}

// The subcommand that was chosen, as deep as it goes; `root` where there is none.
const CLI::App& chosen_command(const CLI::App& root) {
  const CLI::App* at = &root;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return *at;
}

Error explain(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& command = chosen_command(root);
  std::string message = error.what();
  message.resize(std::min(message.find('\n'), message.size()));
  const bool lacks_command = message == "A subcommand is required";
  if (lacks_command || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // The words left over may be the command's own, or the root's (before the command).
    for (const CLI::App* app : {&command, &root}) {
      const auto words = app->remaining(false);
      if (!words.empty()) return unexpected_word(facts_of(*app), words.front());
    }
  }
  const std::string hint = see_help(facts_of(command));
  if (lacks_command) return Error(ErrorCode::kBadInput, "a command is missing", hint);

  // CLI11's words for the two mistakes that are made most often, in ours.
  constexpr std::string_view kRequired = " is required", kConvert = "Could not convert: ";
  if (message.ends_with(kRequired)) {
    message = message.substr(0, message.size() - kRequired.size()) + " is missing";
  } else if (message.starts_with(kConvert) && message.find(" = ") != std::string::npos) {
    const size_t equals = message.find(" = ");
    message = fmt::format("{}: '{}' is not a number that it can take",
                          message.substr(kConvert.size(), equals - kConvert.size()), message.substr(equals + 3));
  }
  return Error(ErrorCode::kBadInput, message, hint);
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::optional() {
  option_->required(false);
  return *this;
}

Option Option::placeholder(const std::string& name) {
  option_->type_name(name);
  return *this;
}

Option Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::range(int64_t least, int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_->check(CLI::IsMember(values));
  return *this;
}

Option Option::needs(Option other) {
  option_->needs(other.option_);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& description) {
  return {*app_->add_subcommand(name, description), *actions_};
}

void Command::requires_subcommand() { app_->require_subcommand(1); }

void Command::hide() { app_->group(""); }

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::runs(Action action) { (*actions_)[app_] = std::move(action); }

void Command::flag(const std::string& names, bool& value, const std::string& description) {
  app_->add_flag(names, value, description);
}

Option Command::option(const std::string& names, std::string& value, const std::string& description) {
  return Option(app_->add_option(names, value, description));
}

Option Command::option(const std::string& names, std::optional<std::string>& value, const std::string& description) {
  const auto assign = [&value](const std::string& text) { value = text; };
  return Option(app_->add_option_function<std::string>(names, assign, description));
}

Option Command::option(const std::string& names, std::vector<std::string>& values, const std::string& description) {
  return Option(app_->add_option(names, values, description)->allow_extra_args(false));
}

// CLI11 alone would take an empty text for 0, and -1 for the largest unsigned number.
template <class T>
Option Command::number(const std::string& names, T& value, const std::string& description) {
  const auto problem = [](const std::string& text) -> std::string {
    if (text.empty()) return "the number is missing";
    return std::is_unsigned_v<T> && text.front() == '-' ? "must not be negative" : "";
  };
  CLI::Option* option = app_->add_option(names, value, description);
  return Option(option->type_name("N")->check(CLI::Validator(problem, "", "")));
}

template Option Command::number(const std::string&, int&, const std::string&);
template Option Command::number(const std::string&, int64_t&, const std::string&);
template Option Command::number(const std::string&, uint64_t&, const std::string&);
template Option Command::number(const std::string&, float&, const std::string&);

Option Command::numbers(const std::string& names, std::vector<int>& values, const std::string& description) {
  return Option(app_->add_option(names, values, description)->delimiter(',')->allow_extra_args(false));
}

CommandFacts Command::describe() const { return facts_of(*app_); }

CommandLine::CommandLine(const std::string& program, const std::string& version, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->set_version_flag("--version", program + " " + version);
  app_->set_help_flag("-h,--help", "Say what there is, and exit");
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

int CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    std::ostringstream text;
    app_->exit(wanted, text, text);
    print(text.str());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw explain(*app_, error);
  }
  return actions_.at(&chosen_command(*app_))();
}

}  // namespace gabbro::cli
