// `rm`: removes models from the disk, after a question.
#include <unistd.h>

#include <iostream>

#include "apps/cli/commands.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/hub/removal.h"

namespace gabbro::cli {
namespace {

std::string listed(const hub::Removal& removal) {
  std::string text;
  for (const std::string& model : removal.models) text += printable(model) + "\n";
  for (const auto* paths : {&removal.files, &removal.folders}) {
    for (const std::string& path : *paths) text += "  " + printable(path) + "\n";
  }
  return text;
}

// True on y or yes; on a terminal alone.
bool is_confirmed(const hub::Removal& removal) {
  say(listed(removal) + fmt::format("Remove {}? [y/N] ", human_bytes(removal.bytes)));
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int remove_models(const std::vector<std::string>& names, bool yes) {
  if (!yes && !is_terminal(STDIN_FILENO))
    throw Error(ErrorCode::kBadInput, "rm asks before it removes, and standard input is not a terminal",
                "--yes removes without a question");
  std::vector<hub::Removal> removals;
  removals.reserve(names.size());
  for (const std::string& name : names) removals.push_back(hub::plan_removal(name));
  for (const hub::Removal& removal : removals) {
    if (!yes && !is_confirmed(removal)) {
      report("note", "nothing was removed");
      continue;
    }
    hub::remove(removal);
    print(fmt::format("removed {} ({})\n", printable(removal.models.front()), human_bytes(removal.bytes)));
  }
  return 0;
}

}  // namespace

void add_remove(Command root) {
  Command command = root.subcommand("rm", "Remove models from the disk");
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto yes = std::make_shared<bool>(false);
  command
      .option("MODEL", *names,
              "Names that 'gabbro list' shows; owner/name without a quantization means all of the repository")
      .required();
  command.flag("-y,--yes", *yes, "Do not ask");
  command.alias("remove");
  command.footer("Models in the folders of Ollama and LM Studio are left to these programs.");
  command.example("gabbro rm Qwen/Qwen3-8B-GGUF:q4_k_m");
  command.runs([names, yes] { return remove_models(*names, *yes); });
}

}  // namespace gabbro::cli
