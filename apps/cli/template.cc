// `template`: a conversation as the text that a model is given.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/engine/model_text.h"
#include "src/formats/model_cache.h"
#include "src/text/chat_template.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  CommonOptions common;
  std::string source;
  std::string messages;
  std::string tools;
  std::vector<std::string> variables;
  bool no_generation_prompt = false;
};

struct Source {
  std::string text;
  Json variables = Json::object();
};

bool is_model(const std::string& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, "GGUF", sizeof magic) == 0;
}

Source read_source(const std::string& name) {
  std::error_code ignored;
  if (std::filesystem::exists(name, ignored) && !is_model(name)) return {.text = read_file(name)};
  const auto file = gguf::File::open(resolve_model(name));
  const auto text = read_chat_template(file);
  if (!text) throw bad_input("{}: the model has no chat template", file.path());
  return {*text, template_variables(read_tokenizer(file))};
}

Json read_json(const std::string& path) {
  try {
    return Json::parse(read_file(path));
  } catch (const Json::exception& error) {
    throw bad_input("{}: not JSON: {}", path, error.what());
  }
}

// A list, or an object that has one under `key`, as requests to a server do.
Json read_list(const std::string& path, const char* key) {
  Json json = read_json(path);
  if (json.is_object() && json.contains(key)) json = Json(json[key]);
  if (!json.is_array()) throw bad_input("{}: expected a list of {}", path, key);
  return json;
}

// name=value; the value is JSON where it can be read so, else a text.
void add_variable(Json& variables, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) throw bad_input("--var: '{}' is not of the form NAME=VALUE", text);
  const std::string value = text.substr(equals + 1);
  Json parsed = Json::parse(value, nullptr, false);
  variables[text.substr(0, equals)] = parsed.is_discarded() ? Json(value) : std::move(parsed);
}

int run(const Options& o) {
  Source source = read_source(o.source);
  for (const std::string& variable : o.variables) add_variable(source.variables, variable);
  const Json messages = read_list(o.messages, "messages");
  const Json tools = o.tools.empty() ? Json(nullptr) : read_list(o.tools, "tools");
  const text::ChatTemplate chat_template(source.text);
  const std::string text = chat_template.render(messages, tools, !o.no_generation_prompt, source.variables);
  if (o.common.json) {
    print_json({{"text", text}});
  } else {
    print(text);
  }
  return 0;
}

}  // namespace

void add_template(Command root) {
  Command command = root.subcommand("template", "Render a chat template");
  const auto o = std::make_shared<Options>();
  command.option("SOURCE", o->source, "A Jinja file, or a model whose template is used").required();
  command.option("--messages", o->messages, "The conversation: a list of objects with role and content")
      .placeholder("FILE.json")
      .required();
  command.option("--tools", o->tools, "The tools that the model may call").placeholder("FILE.json");
  command.option("--var", o->variables, "Set a variable of the template; may be repeated").placeholder("NAME=VALUE");
  command.flag("--no-generation-prompt", o->no_generation_prompt, "Do not begin the answer");
  add_output_options(command, o->common);
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
