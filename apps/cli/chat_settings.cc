#include "apps/cli/chat_settings.h"

#include <algorithm>

#include "apps/cli/argument_parser.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

constexpr const char* kUsage = "/set parameter NAME VALUE, as in /set parameter temperature 0.7; /set system TEXT\n";

// The first word of `text`, which loses it and the spaces around it.
std::string take_word(std::string& text) {
  const size_t start = std::min(text.find_first_not_of(' '), text.size());
  const size_t end = std::min(text.find(' ', start), text.size());
  const std::string word = text.substr(start, end - start);
  text.erase(0, std::min(text.find_first_not_of(' ', end), text.size()));
  return word;
}

// A text may be given in quotation marks, as in Ollama.
std::string unquoted(const std::string& text) {
  const bool quoted = text.size() >= 2 && text.front() == '"' && text.back() == '"';
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::string set_parameter(Conversation& conversation, const std::string& name, const std::string& value) {
  if (with_dashes(name) == "ctx" || with_dashes(name) == "num-ctx")
    throw Error(ErrorCode::kBadInput, "the context is fixed when the model is loaded", "gabbro run MODEL --ctx N");
  // Declared as `run` declares them, so that names, aliases, ranges and messages are the same.
  CommandSpec command;
  GenerationOptions options = conversation.options();
  add_sampling_options(Command(&command), options);
  parse_arguments(command, {fmt::format("--{}={}", name, value)});
  options.declared = conversation.options().declared;  // the handles of this declaration end with `command`
  finish(options);
  conversation.set_generation(options);
  return fmt::format("({} is {})\n", printable(name), printable(value));
}

}  // namespace

std::string change_setting(Conversation& conversation, const std::string& setting) {
  std::string rest = setting;
  const std::string what = take_word(rest);
  if (what == "system" && !rest.empty()) {
    conversation.set_system(unquoted(rest));
    return "(the system message is changed)\n";
  }
  const std::string name = take_word(rest);
  if (what != "parameter" || name.empty() || rest.empty()) return kUsage;
  return set_parameter(conversation, name, unquoted(rest));
}

}  // namespace gabbro::cli
