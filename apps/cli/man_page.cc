// `man`: the manual page in roff, made from the same tree that reads the command line. The build installs what it
// prints.
#include "apps/cli/commands.h"
#include "apps/cli/help.h"
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

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string heading(const OptionFacts& option) {
  const std::string value = option.takes_value && option.argument.empty() ? option.value : "";
  std::string names = option_heading(option);
  names.resize(names.size() - (value.empty() ? 0 : value.size() + 1));
  return fmt::format("\\fB{}\\fR{}", roff(names), value.empty() ? "" : " \\fI" + roff(value) + "\\fR");
}

void add_command(std::string& page, const CommandFacts& command) {
  page += fmt::format(".SS {}\n{}.\n.PP\n.B {}\n", roff(command.path), roff(command.description),
                      roff(usage_line(command)));
  if (!command.aliases.empty()) page += fmt::format(".PP\nAlso {}.\n", roff(joined(command.aliases)));
  for (const OptionFacts& option : command.options) {
    page += fmt::format(".TP\n{}\n{}.\n", heading(option), roff(described(option)));
    if (!option.aliases.empty()) page += fmt::format("Also {}.\n", roff(joined(option.aliases)));
  }
  if (!command.footer.empty()) page += ".PP\n" + roff(command.footer) + "\n";
  if (!command.examples.empty()) page += ".PP\nExamples:\n.PP\n.nf\n";
  for (const std::string& example : command.examples) page += ".RS 4\n" + roff(example) + "\n.RE\n";
  if (!command.examples.empty()) page += ".fi\n";
  for (const CommandFacts& below : command.commands) add_command(page, below);
}

std::string man_page(const CommandFacts& root) {
  std::string page = fmt::format(".TH GABBRO 1 \"\" \"gabbro {}\" \"User Commands\"\n", GABBRO_VERSION);
  page += ".SH NAME\ngabbro \\- run AI models on AMD GPUs, NVIDIA GPUs and CPUs\n";
  page += ".SH SYNOPSIS\n.B gabbro\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...\n";
  page += ".SH DESCRIPTION\n" + roff(root.description);
  page +=
      "\nMODEL is a GGUF file, a model folder, or a name that \\fBgabbro list\\fR shows.\n"
      "A file that is read may be \\- (standard input), and one that is written \\- (standard output).\n"
      "An argument is an option where it begins with a dash and a letter; \\-\\- ends the options.\n"
      "An argument with a space in it is text, unless its first word is the name of an option.\n"
      "Results go to standard output, all else to standard error.\n.SH COMMANDS\n";
  for (const CommandFacts& command : root.commands) add_command(page, command);
  page +=
      ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nFailed while running.\n.TP\n2\nBad usage or bad input.\n"
      ".TP\n3\nNo usable device, or not enough memory.\n.TP\n130\nInterrupted.\n"
      ".SH ENVIRONMENT\n.TP\nGABBRO_HOME\nWhere models, history, compiled kernels and tuning results are kept.\n"
      ".TP\nXDG_CACHE_HOME, XDG_STATE_HOME\nAbsolute paths: gabbro/models below the first, gabbro/history below the "
      "second, where GABBRO_HOME is not set.\n"
      ".TP\nHF_HUB_CACHE, HF_HOME\nThe cache of the Hugging Face Hub, where \\fBgabbro pull\\fR puts models: "
      "~/.cache/huggingface/hub where neither is set.\n"
      ".TP\nHF_TOKEN, HF_TOKEN_PATH\nThe token for private and gated models, or the file that has it.\n"
      ".TP\nHF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT\nAnother server than https://huggingface.co; 1: no "
      "downloads; seconds after which a stalled transfer is repeated.\n"
      ".TP\nOLLAMA_MODELS\nThe folder of Ollama's models, which are found too.\n"
      ".TP\nGABBRO_DEVICE\nThe device, where \\-\\-device does not name one.\n"
      ".TP\nGABBRO_WORKER\non, off or auto: whether \\fBgabbro run\\fR computes in a worker process, which survives "
      "faults of a device; auto: on GPUs.\n"
      ".TP\nGABBRO_TUNING_FILE\nWhere \\fBgabbro tune\\fR keeps what it measures; empty: nowhere.\n"
      ".TP\nGABBRO_TUNE\n1: shapes without a measurement are measured when a model first needs them.\n"
      ".TP\nGABBRO_GRAPHS\n0: no lists of launches are replayed as graphs; 1: they are without a test, also where they "
      "are known to be wrong.\n"
      ".TP\nGABBRO_BLOCKING_SYNC\n1: threads that wait for an AMD GPU sleep in place of polling.\n"
      ".TP\nGABBRO_CPU\nForces an instruction set of the CPU backend: scalar, avx2, avx512.\n"
      ".TP\nGABBRO_PLUGIN_PATH\nThe folder of the backend plugins, libgabbro_*.so.\n"
      ".TP\nGABBRO_HIP_PATH\nThe library libamdhip64 of AMD's HIP, or its folder: only that is tried.\n"
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
