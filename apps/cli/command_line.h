// The command line as commands declare it: subcommands, options, and what they do. CLI11 reads it. command_line.cc
// alone includes CLI11, which costs each file that does ten seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/command_tree.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace gabbro::cli {

// What the chosen command does, after its options were read. Returns the exit code.
using Action = std::function<int()>;
using Actions = std::map<const CLI::App*, Action>;

// A handle to an option. Each function states one more thing about it, and returns the handle again.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option optional();                            // takes required() back
  Option placeholder(const std::string& name);  // what help shows for the value: FILE
  Option shows_default();                       // help shows the value that the variable has now
  Option range(int64_t least, int64_t most);
  Option one_of(const std::vector<std::string>& values);
  Option needs(Option other);     // cannot be given without it
  bool given() const;             // on the command line, once it has been read
  Option excludes(Option other);  // cannot be given beside it

 private:
  CLI::Option* option_;
};

// A handle to a command. An option's names are "-n,--max-tokens", or "MODEL" for an argument that stands by itself. Its
// value is written to the variable while the command line is read, so the variable has to live until then.
class Command {
 public:
  Command(CLI::App& app, Actions& actions) : app_(&app), actions_(&actions) {}

  Command subcommand(const std::string& name, const std::string& description);
  void requires_subcommand();
  void hide();  // from help, completion scripts and the manual page
  void footer(const std::string& text);
  void runs(Action action);

  // A name that begins with "!" makes it false: "--warmup,!--no-warmup".
  void flag(const std::string& names, bool& value, const std::string& description);

  Option option(const std::string& names, std::string& value, const std::string& description);
  // Keeps apart an empty text and none.
  Option option(const std::string& names, std::optional<std::string>& value, const std::string& description);
  // May be repeated.
  Option option(const std::string& names, std::vector<std::string>& values, const std::string& description);
  // T: int, int64_t, uint64_t, float. An empty text is an error, and so is a minus where T is unsigned.
  template <class T>
  Option number(const std::string& names, T& value, const std::string& description);
  // "16,512"; may be repeated.
  Option numbers(const std::string& names, std::vector<int>& values, const std::string& description);

  CommandFacts describe() const;

 private:
  CLI::App* app_;
  Actions* actions_;
};

// The whole: the program's command with --help and --version, and what is declared below it.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& version, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() { return {*app_, actions_}; }

  // Runs the command that the arguments ask for, or prints help; returns the exit code. Throws bad_input in one line,
  // with a hint, for arguments that cannot be followed.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
  Actions actions_;
};

}  // namespace gabbro::cli
