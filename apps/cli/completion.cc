// `completion bash|zsh|fish`: the shells' completion scripts, made from the same tree that reads the command line.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "apps/cli/commands.h"
#include "apps/cli/help.h"
#include "apps/cli/terminal.h"

namespace gabbro::cli {
namespace {

// Visits every command of the tree, the program itself first.
void walk(const CommandFacts& command, const std::function<void(const CommandFacts&)>& visit) {
  visit(command);
  for (const CommandFacts& below : command.commands) walk(below, visit);
}

// The options that take one of a few values, as "'--kv-type') words='f32 bf16 f16 q8_0 q4_0' ;;" for each; `open` and
// `close` stand around the values.
std::string value_cases(const CommandFacts& root, const char* open, const char* close) {
  std::map<std::string, std::string> cases;
  walk(root, [&](const CommandFacts& command) {
    for (const OptionFacts& option : command.options) {
      if (option.values.empty()) continue;
      for (const std::string& name : option.long_names) cases[name] = fmt::format("{}", fmt::join(option.values, " "));
    }
  });
  std::string text;
  for (const auto& [name, values] : cases) text += fmt::format("    '{}') {}{}{} ;;\n", name, open, values, close);
  return text;
}

// The values of a positional argument: of `completion`, the shells.
std::string argument_values(const CommandFacts& command) {
  std::string values;
  for (const OptionFacts& option : command.options) {
    if (option.argument.empty()) continue;
    for (const std::string& value : option.values) values += value + " ";
  }
  return values;
}

std::string words_after(const CommandFacts& command) {
  std::string words = argument_values(command);
  for (const CommandFacts& below : command.commands) words += below.name + " ";
  for (const OptionFacts& option : command.options) {
    for (const std::string& name : option.short_names) words += name + " ";
    for (const std::string& name : option.long_names) words += name + " ";
  }
  if (!words.empty()) words.pop_back();
  return words;
}

// The rest of a loop over each `word` before the current one, for bash and zsh: finds the path of the command, then
// does what `cases` say for it.
std::string choose_by_path(const std::string& cases) {
  return fmt::format(R"(    case "$command $word" in
      ' '[a-z]*) command="$word" ;;
      'bench '[a-z]*) command="bench $word" ;;
    esac
  done
  case "$command" in
{}  esac
)",
                     cases);
}

// Files are offered where no word of ours fits, since MODEL is most often a file.
std::string bash_script(const CommandFacts& root) {
  std::string cases;
  walk(root, [&](const CommandFacts& command) {
    cases += fmt::format("    '{}') words='{}' ;;\n", command.path, words_after(command));
  });
  return fmt::format(R"(_gabbro() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" command='' word words=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{}  case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{}  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [ ${{#COMPREPLY[@]}} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}}
complete -o filenames -F _gabbro gabbro
)",
                     choose_by_path(cases), value_cases(root, "words='", "'"));
}

std::string quoted(std::string text) {  // for single quotes of zsh and fish
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return text;
}

std::string zsh_script(const CommandFacts& root) {
  std::string cases;
  walk(root, [&](const CommandFacts& command) {
    cases += fmt::format("    '{}') offers=({}", command.path, argument_values(command));
    for (const CommandFacts& below : command.commands) {
      cases += fmt::format("'{}:{}' ", below.name, quoted(below.description));
    }
    for (const OptionFacts& option : command.options) {
      for (const std::string& name : option.long_names) {
        cases += fmt::format("'{}:{}' ", name, quoted(described(option)));
      }
    }
    cases += ") ;;\n";
  });
  return fmt::format(R"(#compdef gabbro
_gabbro() {{
  local command='' word
  local -a offers
  for word in "${{(@)words[2,CURRENT-1]}}"; do
{}  case "${{words[CURRENT-1]}}" in
{}  esac
  _describe 'gabbro' offers
  _files
}}
compdef _gabbro gabbro
)",
                     choose_by_path(cases), value_cases(root, "offers=(", ")"));
}

std::string fish_script(const CommandFacts& root) {
  std::string script = "complete -c gabbro -n __fish_use_subcommand -f\n";
  walk(root, [&](const CommandFacts& command) {
    const std::string& path = command.path;
    std::string condition = "__fish_use_subcommand";
    if (!path.empty()) {
      condition = "'";
      for (size_t at = 0; at < path.size();) {
        const size_t end = std::min(path.find(' ', at), path.size());
        condition += (at ? "; and " : "") + fmt::format("__fish_seen_subcommand_from {}", path.substr(at, end - at));
        at = end + 1;
      }
      condition += "'";
    }
    for (const CommandFacts& below : command.commands) {
      script +=
          fmt::format("complete -c gabbro -n {} -a {} -d '{}'\n", condition, below.name, quoted(below.description));
    }
    for (const OptionFacts& option : command.options) {
      if (option.long_names.empty()) continue;
      std::string names = "-l " + option.long_names.front().substr(2);
      if (!option.short_names.empty()) names += " -s " + option.short_names.front().substr(1);
      const std::string takes = !option.values.empty() ? fmt::format(" -x -a '{}'", fmt::join(option.values, " "))
                                : option.takes_value   ? " -r"
                                                       : "";
      script +=
          fmt::format("complete -c gabbro -n {} {}{} -d '{}'\n", condition, names, takes, quoted(described(option)));
    }
  });
  return script;
}

}  // namespace

void add_completion(Command root) {
  Command command = root.subcommand("completion", "Print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  command.option("SHELL", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  command.footer("For bash: gabbro completion bash > ~/.local/share/bash-completion/completions/gabbro");
  command.example("gabbro completion fish > ~/.config/fish/completions/gabbro.fish");
  command.runs([root, shell] {
    const CommandFacts program = root.describe();
    print(*shell == "bash" ? bash_script(program) : *shell == "zsh" ? zsh_script(program) : fish_script(program));
    return 0;
  });
}

}  // namespace gabbro::cli
