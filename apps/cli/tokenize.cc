// `tokenize`: text to tokens, and back with --decode.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/base/mapped_file.h"
#include "src/engine/model_text.h"
#include "src/formats/model_cache.h"

namespace gabbro::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  std::string text;
  std::string file;
  std::string decode;
  bool no_special = false;
  bool no_bos = false;
  const CLI::Option* has_text = nullptr;
  const CLI::Option* has_decode = nullptr;
};

std::string text_of(const Options& o) {
  if (!o.file.empty()) return read_file(o.file);
  return o.has_text->count() > 0 ? o.text : read_standard_input();
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
  const auto file = gguf::File::open(resolve_model(o.model));
  const text::Tokenizer tokenizer = read_tokenizer(file);
  if (o.has_decode->count() == 0) {
    print_tokens(o, tokenizer,
                 tokenizer.encode(text_of(o), {.add_special = !o.no_bos, .parse_special = !o.no_special}));
    return 0;
  }
  const auto ids = parse_token_list(o.decode, "--decode");
  const std::string text = tokenizer.decode(ids, {.remove_special = false, .show_control = !o.no_special});
  if (o.common.json) {
    print_json({{"text", text}, {"token_ids", ids}});
  } else {
    print(text + "\n");
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& root, Actions& actions) {
  CLI::App* app = root.add_subcommand("tokenize", "Turn text into tokens, or tokens into text");
  const auto o = std::make_shared<Options>();
  add_model(*app, o->model);
  CLI::Option* text = app->add_option("TEXT", o->text, "The text; without it, --file or standard input");
  o->has_text = text;
  app->add_option("--file", o->file, "Read the text from a file")->type_name("FILE")->excludes(text);
  o->has_decode =
      app->add_option("--decode", o->decode, "Print the text of these tokens")->type_name("1,2,3")->excludes(text);
  app->add_flag("--no-special", o->no_special, "Treat special tokens that the text spells out as plain text");
  app->add_flag("--no-bos", o->no_bos, "Do not add the tokens that begin and end a text");
  add_output_options(*app, o->common);
  actions[app] = [o] { return run(*o); };
}

}  // namespace gabbro::cli
