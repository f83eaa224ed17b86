// `rm`: removes a model from the disk, after a question.
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
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

void print_removed(const hub::Removal& removal, bool json) {
  if (json) {
    nlohmann::ordered_json paths = removal.files;
    for (const std::string& folder : removal.folders) paths.push_back(folder);
    return print_json({{"removed", removal.models}, {"bytes", removal.bytes}, {"paths", paths}});
  }
  for (const std::string& model : removal.models) print(fmt::format("removed {}\n", printable(model)));
  report("note", fmt::format("{} are free again", human_bytes(removal.bytes)));
}

int remove_model(const std::string& name, bool yes, bool json) {
  if (!yes && !is_terminal(STDIN_FILENO))
    throw Error(ErrorCode::kBadInput, "rm asks before it removes, and standard input is not a terminal",
                "--yes removes without a question");
  hub::Removal removal = hub::plan_removal(name);
  if (!yes && !is_confirmed(removal)) {
    report("note", "nothing was removed");
    return 0;
  }
  removal.bytes = hub::remove(removal);
  print_removed(removal, json);
  return 0;
}

}  // namespace

void add_remove(Command root) {
  Command command = root.subcommand("rm", "Remove a model from the disk");
  const auto name = std::make_shared<std::string>();
  const auto common = std::make_shared<CommonOptions>();
  const auto yes = std::make_shared<bool>(false);
  command
      .option("MODEL", *name,
              "A name that 'gabbro list' shows; owner/name without a quantization means all of the repository")
      .required();
  command.flag("-y,--yes", *yes, "Do not ask");
  add_output_options(command, *common);
  command.alias("remove");
  command.footer("Models in the folders of Ollama and LM Studio are left to these programs.");
  command.example("gabbro rm Qwen/Qwen3-8B-GGUF:q4_k_m");
  command.runs([name, yes, common] { return remove_model(*name, *yes, common->json); });
}

}  // namespace gabbro::cli
