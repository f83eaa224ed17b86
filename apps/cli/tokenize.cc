// `tokenize`: text to tokens, and back with --decode.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/cli/chat_template_argument.h"
#include "apps/cli/commands.h"
#include "apps/cli/options.h"
#include "apps/cli/source_layers.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/base/text_file.h"
#include "src/engine/model_text.h"
#include "src/formats/hugging_face/tokenizer_files.h"
#include "src/hub/model_cache.h"
#include "src/text/chat/chat_prompt.h"

namespace gabbro::cli {
namespace {

struct TokenizeOptions {
  CommonOptions common;
  std::string model;
  std::optional<std::string> text;
  std::string file;
  std::string messages;
  std::optional<std::string> decode;
  bool jsonl = false;
  bool no_special = false;
  bool no_bos = false;
};

// A tokenizer and where it comes from: a model, or the files of a tokenizer alone.
struct TokenizerSource {
  std::string path;
  text::Tokenizer tokenizer;
  std::function<std::optional<std::string>()> chat_template;  // read where it is needed
  SourceLayers layers{};
};

TokenizerSource open_source(const std::string& model) {
  const auto [path, layers] = is_tokenizer_path(model) ? ResolvedModel{model, nullptr} : resolve_with_layers(model);
  if (is_tokenizer_path(path)) {
    const TokenizerFiles files = read_tokenizer_files(path);
    return {path, read_tokenizer(files), [folder = files.folder] { return read_chat_template(folder); }, layers};
  }
  const auto file = Checkpoint::open(path);
  TokenizerSource source{file.path(), read_tokenizer(file), [file] { return file.chat_template(); }, layers};
  file.require_unchanged();
  return source;
}

std::string text_of(const TokenizeOptions& o) {
  if (!o.file.empty()) return read_input(o.file);
  return o.text && *o.text != "-" ? *o.text : read_standard_input("it is the text");
}

// The prompt that `run` makes of a conversation, with the model's own template.
std::vector<int32_t> encode_messages(const TokenizeOptions& o, const TokenizerSource& source) {
  std::shared_ptr<const text::ChatTemplate> chat_template = template_of(source.layers);
  if (chat_template == nullptr) {
    const std::optional<std::string> text = source.chat_template();
    if (!text) throw bad_input("{}: the model has no chat template", source.path);
    chat_template = std::make_shared<const text::ChatTemplate>(*text);
  }
  report_layers(source.layers);
  const nlohmann::ordered_json messages = with_source_messages(source.layers, read_json_list(o.messages, "messages"));
  const text::ChatPrompt prompt =
      text::render_prompt(*chat_template, messages, nullptr, true, template_variables(source.tokenizer));
  for (const std::string& note : prompt.notes) report("note", note);
  for (const size_t i : prompt.lost)
    report("warning", fmt::format("the chat template leaves out the text of message {}", i + 1));
  return source.tokenizer.encode_marked(prompt.text, {.add_special = !o.no_bos});
}

text::EncodeOptions encode_options(const TokenizeOptions& o) {
  return {.add_special = !o.no_bos, .parse_special = !o.no_special};
}

// A text a line, as a JSON string or as the field "text" of an object; for each the ids, a document a line.
void print_lines(const TokenizeOptions& o, const text::Tokenizer& tokenizer) {
  const std::string lines = text_of(o);
  size_t number = 0;
  for (const std::string_view line : split_lines(lines)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const auto document = nlohmann::json::parse(line, nullptr, false);
    const bool is_object = document.is_object() && document.contains("text");
    if (!document.is_string() && !(is_object && document["text"].is_string()))
      throw bad_input("line {}: is neither a JSON string nor an object with a string \"text\"", number);
    const auto text = is_object ? document["text"].get<std::string>() : document.get<std::string>();
    print(nlohmann::json{{"token_ids", tokenizer.encode(text, encode_options(o))}}.dump() + "\n");
  }
}

void print_tokens(const TokenizeOptions& o, const text::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  if (o.common.json) {
    nlohmann::ordered_json document = {{"token_ids", ids}, {"tokens", nlohmann::ordered_json::array()}};
    for (const int32_t id : ids) document["tokens"].push_back(std::string(tokenizer.piece(id)));
    return print_json(document);
  }
  std::string lines;
  for (const int32_t id : ids) lines += fmt::format("{:7}  {}\n", id, printable(tokenizer.piece(id)));
  print(lines);
}

int run(const TokenizeOptions& o) {
  const TokenizerSource source = open_source(o.model);
  const text::Tokenizer& tokenizer = source.tokenizer;
  for (const std::string& warning : tokenizer.warnings()) report("warning", source.path + ": " + warning);
  if (!o.messages.empty()) {
    print_tokens(o, tokenizer, encode_messages(o, source));
    return 0;
  }
  if (!o.decode) {
    if (o.jsonl) {
      print_lines(o, tokenizer);
    } else {
      print_tokens(o, tokenizer, tokenizer.encode(text_of(o), encode_options(o)));
    }
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
  const auto o = std::make_shared<TokenizeOptions>();
  command
      .option("MODEL", o->model,
              "A GGUF file, a folder with tokenizer.json or tokenizer.model, one of these files, or a name that "
              "'gabbro list' shows")
      .alias("-m,--model")
      .check(require_mappable)
      .file(FileUse::kModel)
      .required();
  Option text = command.option("TEXT", o->text, "The text; -, or without --file nothing: standard input")
                    .takes_text()
                    .alias("-p,--prompt");
  command
      .option("-f,--file", o->file,
              "Read the text from a file, without a byte order mark and with line ends as \\n; -: standard input")
      .placeholder("FILE")
      .file(FileUse::kInput)
      .excludes(text);
  command.option("--decode", o->decode, "Print the text of these tokens").placeholder("1,2,3").excludes(text);
  command.option("--messages", o->messages, "A conversation: the tokens of the prompt that `run` makes of it")
      .placeholder("FILE.json")
      .file(FileUse::kInput)
      .excludes(text);
  command.flag("--jsonl", o->jsonl,
               "The text has a JSON document a line: a string, or an object with \"text\"; print the ids of each");
  command.flag("--no-special", o->no_special,
               "Treat control tokens that the text spells out as plain text, as `run` treats messages");
  command.flag("--no-bos", o->no_bos, "Do not add the tokens that begin and end a text");
  add_output_options(command, o->common);
  command.example("gabbro tokenize MODEL \"Hello there\"");
  command.example("gabbro tokenize MODEL --decode 1,2,3");
  command.example("gabbro tokenize path/to/folder --file texts.jsonl --jsonl");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
