// `man`: the manual page in roff, made from the same tree that reads the command line. The build installs what it
// prints.
#include "apps/cli/commands.h"
#include "apps/cli/terminal.h"

namespace gabbro::cli {
namespace {

std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  if (out.starts_with('.') || out.starts_with('\'')) out.insert(0, "\\&");
  return out;
}

std::string option_heading(const OptionFacts& option) {
  std::string names = option.argument;
  for (const std::string& name : option.short_names) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& name : option.long_names) names += (names.empty() ? "" : ", ") + name;
  return fmt::format("\\fB{}\\fR{}", roff(names), option.takes_value ? " \\fI" + roff(option.value) + "\\fR" : "");
}

void add_command(std::string& page, const CommandFacts& command) {
  page += fmt::format(".SS {}\n{}.\n", roff(command.path), roff(command.description));
  for (const OptionFacts& option : command.options) {
    page += fmt::format(".TP\n{}\n{}", option_heading(option), roff(option.description));
    page += option.default_value.empty() ? ".\n" : fmt::format(" (default: {}).\n", roff(option.default_value));
  }
  for (const CommandFacts& below : command.commands) add_command(page, below);
}

std::string man_page(const CommandFacts& root) {
  std::string page = fmt::format(".TH GABBRO 1 \"\" \"gabbro {}\" \"User Commands\"\n", GABBRO_VERSION);
  page += ".SH NAME\ngabbro \\- run AI models on AMD GPUs, NVIDIA GPUs and CPUs\n";
  page += ".SH SYNOPSIS\n.B gabbro\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...\n";
  page += ".SH DESCRIPTION\n" + roff(root.description);
  page +=
      "\nMODEL is a GGUF file, a folder that holds one, or a name that \\fBgabbro list\\fR shows.\n"
      "Results go to standard output, all else to standard error.\n.SH COMMANDS\n";
  for (const CommandFacts& command : root.commands) add_command(page, command);
  page +=
      ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nFailed while running.\n.TP\n2\nBad usage or bad input.\n"
      ".TP\n3\nNo usable device, or not enough memory.\n.TP\n130\nInterrupted.\n"
      ".SH ENVIRONMENT\n.TP\nGABBRO_HOME\nWhere models and history are kept.\n"
      ".TP\nGABBRO_DEVICE\nThe device, where \\-\\-device does not name one.\n"
      ".TP\nGABBRO_TUNING_FILE\nWhere \\fBgabbro tune\\fR keeps what it measures; empty: nowhere.\n"
      ".TP\nGABBRO_TUNE\n1: shapes that nobody has measured are measured when a model first needs them.\n"
      ".TP\nGABBRO_CPU\nForces an instruction set of the CPU backend: scalar, avx2, avx512.\n"
      ".TP\nGABBRO_PLUGIN_PATH\nThe folder of the backend plugins, libgabbro_*.so.\n"
      ".TP\nGABBRO_SYSFS_ROOT\nA recorded machine that \\fBdevices\\fR, \\fBdoctor\\fR and \\fBfit\\fR read in place "
      "of this one.\n"
      ".TP\nHIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES\n"
      "Which GPUs the runtimes show; \\fBgabbro doctor\\fR names contradictions.\n";
  return page;
}

}  // namespace

void add_man(Command root) {
  Command command = root.subcommand("man", "Print the manual page (roff)");
  command.hide();
  command.runs([root] {
    print(man_page(root.describe()));
    return 0;
  });
}

}  // namespace gabbro::cli
