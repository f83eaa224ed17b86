// `completion bash|zsh|fish`: the shells' completion scripts, made from the same tree that reads the command line.
#include <algorithm>

#include "apps/cli/commands.h"
#include "apps/cli/terminal.h"

namespace gabbro::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) commands.push_back(command);
  }
  return commands;
}

std::vector<std::string> spelled_options(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const auto& name : option->get_snames()) words.push_back("-" + name);
    for (const auto& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// Every command of the tree with its path: "run", "bench llm".
void walk(const CLI::App& app, const std::string& path,
          const std::function<void(const std::string&, const CLI::App&)>& visit) {
  visit(path, app);
  for (const CLI::App* command : commands_of(app)) {
    walk(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), visit);
  }
}

std::string words_after(const CLI::App& app) {
  std::string words;
  for (const CLI::App* command : commands_of(app)) words += command->get_name() + " ";
  for (const std::string& option : spelled_options(app)) words += option + " ";
  if (!words.empty()) words.pop_back();
  return words;
}

// The rest of a loop over each `word` before the current one, for bash and zsh: finds the path of the command, then
// does what `cases` say for it.
std::string choose_by_path(const std::string& cases) {
  return fmt::format(R"(    case "$path $word" in
      ' '[a-z]*) path="$word" ;;
      'bench '[a-z]*) path="bench $word" ;;
    esac
  done
  case "$path" in
{}  esac
)",
                     cases);
}

// Files are offered where no word of ours fits, since MODEL is most often a file.
std::string bash_script(const CLI::App& root) {
  std::string cases;
  walk(root, "", [&](const std::string& path, const CLI::App& app) {
    cases += fmt::format("    '{}') words='{}' ;;\n", path, words_after(app));
  });
  return fmt::format(R"(_gabbro() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" path='' word words=''
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
{}  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [ ${{#COMPREPLY[@]}} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}}
complete -o filenames -F _gabbro gabbro
)",
                     choose_by_path(cases));
}

std::string quoted(std::string text) {  // for single quotes of zsh and fish
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return text;
}

std::string zsh_script(const CLI::App& root) {
  std::string cases;
  walk(root, "", [&](const std::string& path, const CLI::App& app) {
    cases += fmt::format("    '{}') words=(", path);
    for (const CLI::App* command : commands_of(app)) {
      cases += fmt::format("'{}:{}' ", command->get_name(), quoted(command->get_description()));
    }
    for (const CLI::Option* option : app.get_options()) {
      for (const auto& name : option->get_lnames()) {
        cases += fmt::format("'--{}:{}' ", name, quoted(option->get_description()));
      }
    }
    cases += ") ;;\n";
  });
  return fmt::format(R"(#compdef gabbro
_gabbro() {{
  local path='' word
  local -a words
  for word in "${{(@)words[2,CURRENT-1]}}"; do
{}  _describe 'gabbro' words
  _files
}}
compdef _gabbro gabbro
)",
                     choose_by_path(cases));
}

std::string fish_script(const CLI::App& root) {
  std::string script = "complete -c gabbro -n __fish_use_subcommand -f\n";
  walk(root, "", [&](const std::string& path, const CLI::App& app) {
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
    for (const CLI::App* command : commands_of(app)) {
      script += fmt::format("complete -c gabbro -n {} -a {} -d '{}'\n", condition, command->get_name(),
                            quoted(command->get_description()));
    }
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_lnames().empty()) continue;
      std::string names = "-l " + option->get_lnames().front();
      if (!option->get_snames().empty()) names += " -s " + option->get_snames().front();
      script += fmt::format("complete -c gabbro -n {} {}{} -d '{}'\n", condition, names,
                            option->get_type_size() > 0 ? " -r" : "", quoted(option->get_description()));
    }
  });
  return script;
}

}  // namespace

void add_completion(CLI::App& root, Actions& actions) {
  CLI::App* app = root.add_subcommand("completion", "Print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer("For bash: gabbro completion bash > ~/.local/share/bash-completion/completions/gabbro");
  actions[app] = [&root, shell] {
    print(*shell == "bash" ? bash_script(root) : *shell == "zsh" ? zsh_script(root) : fish_script(root));
    return 0;
  };
}

}  // namespace gabbro::cli
