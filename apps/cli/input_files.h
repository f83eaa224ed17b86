// The one rule for outputs: a command never overwrites what it reads, whatever --force says. Options declare which
// files they name (FileUse), and every command with an output is checked before it runs.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "apps/cli/command_spec.h"

namespace gabbro::cli {

// Files by device and inode: symbolic and hard links, other spellings and other names of the same file are that file.
class InputFiles {
 public:
  // `what` is for messages: "the file of --text". A folder stands for all files in it.
  void add(const std::string& path, const std::string& what);
  // A file with its other parts, a file of a folder with the folder's other files, a folder, or the name of one of
  // them. A name without a model adds nothing: the command says that.
  void add_model(const std::string& name);

  // Throws bad_input where `path`, or a file that is written next to it meanwhile, is one of them.
  void refuse_output(const std::string& path) const;
  // Does so for a folder that is replaced as a whole.
  void refuse_folder(const std::string& folder) const;
  void refuse_standard_output() const;

 private:
  struct Entry {
    dev_t device;
    ino_t number;
    std::string path, what;
  };

  void add_folder(const std::string& folder, const std::string& what);
  const Entry* find(dev_t device, ino_t number) const;

  std::vector<Entry> entries_;
};

// The files that the given options of a command name.
InputFiles inputs_of(const CommandSpec& command);

// Throws bad_input, naming the option, where one of a command's outputs is one of its inputs, or is standard output
// ("-") and cannot be.
void check_outputs(const CommandSpec& command);

}  // namespace gabbro::cli
