// `tokenize`: text to tokens, and back with --decode.
#include <nlohmann/json.hpp>

#include "apps/cli/chat_template_argument.h"
#include "apps/cli/commands.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/engine/model_text.h"
#include "src/hub/model_cache.h"
#include "src/text/chat_prompt.h"

namespace gabbro::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  std::optional<std::string> text;
  std::string file;
  std::string messages;
  std::optional<std::string> decode;
  bool no_special = false;
  bool no_bos = false;
};

std::string text_of(const Options& o) {
  if (!o.file.empty()) return read_input(o.file);
  return o.text && *o.text != "-" ? *o.text : read_standard_input("it is the text");
}

// The prompt that `run` makes of a conversation, with the model's own template.
std::vector<int32_t> encode_messages(const Options& o, const Checkpoint& file, const text::Tokenizer& tokenizer) {
  const auto source = file.chat_template();
  if (!source) throw bad_input("{}: the model has no chat template", file.path());
  const text::ChatPrompt prompt =
      text::render_prompt(text::ChatTemplate(*source), read_json_list(o.messages, "messages"), nullptr, true,
                          template_variables(tokenizer));
  for (const std::string& note : prompt.notes) report("note", note);
  for (const size_t i : prompt.lost)
    report("warning", fmt::format("the chat template leaves out the text of message {}", i + 1));
  return tokenizer.encode_marked(prompt.text, {.add_special = !o.no_bos});
}

void print_tokens(const Options& o, const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  if (o.common.json) {
    nlohmann::ordered_json document = {{"token_ids", ids}, {"tokens", nlohmann::ordered_json::array()}};
    for (const int32_t id : ids) document["tokens"].push_back(std::string(tokenizer.piece(id)));
    return print_json(document);
  }
  std::string lines;
  for (const int32_t id : ids) lines += fmt::format("{:7}  {}\n", id, printable(tokenizer.piece(id)));
  print(lines);
}

int run(const Options& o) {
  const auto file = Checkpoint::open(resolve_model(o.model));
  const text::Tokenizer tokenizer = read_tokenizer(file);
  for (const std::string& warning : tokenizer.warnings()) report("warning", file.path() + ": " + warning);
  if (!o.messages.empty()) {
    print_tokens(o, tokenizer, encode_messages(o, file, tokenizer));
    return 0;
  }
  if (!o.decode) {
    print_tokens(o, tokenizer,
                 tokenizer.encode(text_of(o), {.add_special = !o.no_bos, .parse_special = !o.no_special}));
    return 0;
  }
  const auto ids = parse_token_list(*o.decode, "--decode");
  const std::string text = tokenizer.decode(ids, {.remove_special = false, .show_control = !o.no_special});
  if (o.common.json) {
    print_json({{"text", text}, {"token_ids", ids}});
  } else {
    TextOutput output(TextOutput::Lines::kAsTheyAre);
    output.write(text + "\n");
    output.finish();
  }
  return 0;
}

}  // namespace

void add_tokenize(Command root) {
  Command command = root.subcommand("tokenize", "Turn text into tokens, or tokens into text");
  const auto o = std::make_shared<Options>();
  add_model(command, o->model);
  Option text = command.option("TEXT", o->text, "The text; -, or without --file nothing: standard input")
                    .takes_text()
                    .alias("-p,--prompt");
  command.option("-f,--file", o->file, "Read the text from a file; -: standard input")
      .placeholder("FILE")
      .excludes(text);
  command.option("--decode", o->decode, "Print the text of these tokens").placeholder("1,2,3").excludes(text);
  command.option("--messages", o->messages, "A conversation: the tokens of the prompt that `run` makes of it")
      .placeholder("FILE.json")
      .excludes(text);
  command.flag("--no-special", o->no_special,
               "Treat control tokens that the text spells out as plain text, as `run` treats messages");
  command.flag("--no-bos", o->no_bos, "Do not add the tokens that begin and end a text");
  add_output_options(command, o->common);
  command.example("gabbro tokenize MODEL \"Hello there\"");
  command.example("gabbro tokenize MODEL --decode 1,2,3");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
