// `template`: a conversation as the text that a model is given.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/cli/chat_template_argument.h"
#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/source_layers.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/engine/model_text.h"
#include "src/formats/foreign_file.h"
#include "src/hub/model_cache.h"
#include "src/text/chat/builtin_templates.h"
#include "src/text/chat/chat_prompt.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TemplateOptions {
  CommonOptions common;
  std::string source;
  std::string messages;
  std::string tools;
  std::vector<std::string> variables;
  bool no_generation_prompt = false;
};

struct TemplateSource {
  std::shared_ptr<const text::ChatTemplate> chat_template;
  Json variables = Json::object();
  SourceLayers layers{};
};

// A GGUF file, or one that was meant to be one.
bool is_model(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // reading a pipe would take its text away
  std::string start(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), std::ssize(start));
  start.resize(static_cast<size_t>(file.gcount()));
  return start.starts_with("GGUF") || path.ends_with(".gguf") ||
         recognize_file(std::as_bytes(std::span(start)), path).has_value();
}

TemplateSource read_template_source(const std::string& name, bool with_tools) {
  std::error_code ignored;
  const auto jinja = [](const std::string& text) { return std::make_shared<const text::ChatTemplate>(text); };
  if (is_standard_input(name)) return {.chat_template = jinja(read_input(name))};
  const bool exists = std::filesystem::exists(name, ignored);
  if (const auto builtin = text::find_builtin_template(name); builtin && !exists)
    return {.chat_template = jinja(std::string(*builtin))};
  if (exists && !std::filesystem::is_directory(name, ignored) && !is_model(name))
    return {.chat_template = jinja(read_input(name))};
  const ResolvedModel model = resolve_with_layers(name);
  const auto file = Checkpoint::open(model.path);
  TemplateSource source{.chat_template = template_of(model.layers), .layers = model.layers};
  if (source.chat_template == nullptr) {
    const auto text = file.chat_template(with_tools);
    if (!text) throw bad_input("{}: the model has no chat template", file.path());
    source.chat_template = jinja(*text);
  }
  report_layers(model.layers);
  const text::Tokenizer tokenizer = read_tokenizer(file);
  file.require_unchanged();
  for (const std::string& warning : tokenizer.warnings()) report("warning", file.path() + ": " + warning);
  source.variables = template_variables(tokenizer);
  return source;
}

int run(const TemplateOptions& o) {
  const Json tools = o.tools.empty() ? Json(nullptr) : read_json_list(o.tools, "tools");
  const bool with_tools = tools.is_array() && !tools.empty();
  TemplateSource source = read_template_source(o.source, with_tools);
  for (const std::string& variable : o.variables)
    add_template_variable(source.variables, variable, "--var (--template-var)");
  const Json messages = with_source_messages(source.layers, read_json_list(o.messages, "messages"));
  const text::ChatTemplate& chat_template = *source.chat_template;
  const text::ChatPrompt prompt =
      text::render_prompt(chat_template, messages, tools, !o.no_generation_prompt, source.variables);
  for (const std::string& note : prompt.notes) report("note", note);
  if (with_tools && !text::shows_tools(chat_template, messages, tools, source.variables))
    report("warning", "the chat template does not show tools: the model is not told of them");
  for (const size_t i : prompt.lost)
    report("warning", fmt::format("the chat template leaves out the text of message {}", i + 1));
  if (o.common.json) {
    Json input = Json::array();  // the bytes that came from the messages, and become no control tokens
    for (const jinja::InputSpan& span : prompt.text.spans()) {
      if (!input.empty() && input.back()[1] == span.begin) {
        input.back()[1] = span.end;
      } else {
        input.push_back({span.begin, span.end});
      }
    }
    print_json({{"text", prompt.text.bytes()}, {"input", input}});
  } else {
    TextOutput output(TextOutput::Lines::kAsTheyAre);
    output.write(prompt.text.bytes());
    output.finish();
  }
  return 0;
}

}  // namespace

void add_template(Command root) {
  Command command = root.subcommand("template", "Render a chat template");
  const auto o = std::make_shared<TemplateOptions>();
  command
      .option("SOURCE", o->source,
              "A Jinja file (-: standard input), a model whose template is used, or a name such as chatml")
      .file(FileUse::kModel)
      .required();
  command
      .option("--messages", o->messages, "The conversation: a list of objects with role and content; -: standard input")
      .placeholder("FILE.json")
      .file(FileUse::kInput)
      .required();
  command.option("--tools", o->tools, "The tools that the model may call; -: standard input")
      .placeholder("FILE.json")
      .file(FileUse::kInput);
  command
      .option("--template-var,--var", o->variables,
              "Set a variable of the template, such as enable_thinking=false; may be repeated")
      .placeholder("NAME=VALUE");
  command.flag("--no-generation-prompt", o->no_generation_prompt, "Do not begin the answer");
  add_output_options(command, o->common);
  command.example("gabbro template MODEL --messages chat.json");
  command.example("echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | gabbro template MODEL --messages -");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
