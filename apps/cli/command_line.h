// The command line as commands declare it: subcommands, options and actions. argument_parser.h reads the
// arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/command_tree.h"

namespace gabbro::cli {

struct OptionSpec;   // command_spec.h
struct CommandSpec;  // command_spec.h

// Runs the chosen command after its options were read. Returns the exit code.
using Action = std::function<int()>;

// The file that an option's value names. Outputs are checked against inputs before the command runs (input_files.h).
enum class FileUse {
  kNone,
  kModel,    // read: a model, by path or name
  kInput,    // read: a file or a folder; "-" is standard input
  kAdapter,  // read: FILE[:SCALE]
  kOutput,   // written: a file
  kStream,   // written: a file, or by "-" standard output
  kFolder    // written: files in a folder
};

// A handle to an option. Each function states one more thing about it, and returns the handle again.
class Option {
 public:
  explicit Option(OptionSpec* option) : option_(option) {}

  Option required();
  Option optional();                             // takes required() back
  Option placeholder(const std::string& name);   // what help shows for the value: FILE
  Option default_text(const std::string& text);  // what help shows as the default, in place of the variable's value
  Option alias(const std::string& names);        // "--temp,-c": other spellings that are accepted; "!": see flag()
  Option range(int64_t least, int64_t most);     // of whole numbers
  Option one_of(const std::vector<std::string>& values);
  Option file(FileUse use);  // the value names a file
  Option takes_text();       // a prompt or another text of the user's: it may be empty
  Option takes_rest();       // of a positional argument with several values: all words that follow
  Option check(std::function<void(const std::string&)> check);  // of a text; throws where it is refused
  Option needs(Option other);                                   // cannot be given without it
  Option excludes(Option other);                                // cannot be given together with it

  bool given() const;  // on the command line, once it has been read

 private:
  OptionSpec* option_;
};

// A handle to a command. An option's names are "-n,--max-tokens"; "MODEL" is a positional argument, and "MODEL,--model"
// one that may also be given by name. The value is written to the variable while the command line is read, so the
// variable has to live until then. The variable's value at the declaration is the default that help shows.
class Command {
 public:
  explicit Command(CommandSpec* command) : command_(command) {}

  Command subcommand(const std::string& name, const std::string& description);
  void alias(const std::string& name);  // another name of this command
  void requires_subcommand();
  void hide();                                    // from help, completion scripts and the manual page
  void footer(const std::string& text);           // added to what is there
  void example(const std::string& command_line);  // help and the manual page end with these
  void runs(Action action);

  // A name that begins with "!" makes it false: "--warmup,!--no-warmup".
  Option flag(const std::string& names, bool& value, const std::string& description);

  // An empty text is an error, except where takes_text() says otherwise.
  Option option(const std::string& names, std::string& value, const std::string& description);
  // Keeps apart an empty text and none.
  Option option(const std::string& names, std::optional<std::string>& value, const std::string& description);
  // May be repeated.
  Option option(const std::string& names, std::vector<std::string>& values, const std::string& description);
  // T: int, int64_t, uint64_t, float. Numbers are decimal; anything else is an error, also infinity and NaN.
  template <class T>
  Option number(const std::string& names, T& value, const std::string& description);
  template <class T>
  Option number(const std::string& names, std::optional<T>& value, const std::string& description);
  // "16,512"; may be repeated.
  Option numbers(const std::string& names, std::vector<int>& values, const std::string& description);

  // An option of another program that does nothing here: it is accepted, with a note that says why.
  enum class Value { kNone, kOne, kMaybe };  // kMaybe: on, off or auto, where one of these follows
  void accept(const std::string& names, Value value, const std::string& note);

  CommandFacts describe() const;
  const CommandSpec& spec() const { return *command_; }

 private:
  CommandSpec* command_;
};

// The whole: the program's command with --help, --version and `help`, and what is declared below it.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& version, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() { return Command(root_.get()); }

  // Runs the command that the arguments ask for, or prints help; returns the exit code. Throws bad_input in one line,
  // with a hint, for arguments that cannot be followed.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CommandSpec> root_;
  std::string version_;
  std::vector<std::string> help_of_;  // the words after `help`
};

}  // namespace gabbro::cli
