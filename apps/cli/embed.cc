// `embed`: a vector for each text.
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "apps/cli/text_list.h"
#include "src/base/error.h"
#include "src/base/npy.h"

namespace gabbro::cli {
namespace {

struct EmbedArguments {
  CommonOptions common;
  std::string model;
  TextList texts;
  std::string out;
  std::string pooling;
  bool normalized = true;
  std::optional<Option> normalized_given;
  std::optional<std::string> prefix;
  std::string prompt_name;
  std::optional<std::string> kv_type;
  EmbedOptions embed;
};

// The text before each: --prefix, or a prompt of the model by its name.
std::string prompt_of(const EmbedArguments& o, const TextEncoderFacts& facts) {
  if (o.prefix) return *o.prefix;
  const std::string& name = o.prompt_name.empty() ? facts.default_prompt : o.prompt_name;
  if (name.empty()) return "";
  if (const auto found = facts.prompts.find(name); found != facts.prompts.end()) return found->second;
  std::string known;
  for (const auto& [key, text] : facts.prompts) known += (known.empty() ? "" : ", ") + key;
  throw Error(ErrorCode::kBadInput, fmt::format("the model has no prompt '{}'", name),
              known.empty() ? "it has none; --prefix takes a text" : "it has: " + known);
}

void print_vectors(std::span<const float> vectors, size_t width) {
  std::string lines;
  for (size_t i = 0; i < vectors.size(); ++i)
    lines += fmt::format("{:.7g}{}", vectors[i], (i + 1) % width == 0 ? '\n' : ' ');
  print(lines);
}

void print_document(const TextEncoderFacts& facts, std::span<const float> vectors, size_t width) {
  nlohmann::ordered_json document = {{"model", facts.name},
                                     {"device", facts.device_id},
                                     {"dimensions", width},
                                     {"embeddings", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < vectors.size(); i += width) {
    const std::span<const float> vector = vectors.subspan(i, width);
    document["embeddings"].push_back(std::vector<float>(vector.begin(), vector.end()));
  }
  print_json(document);
}

int run(EmbedArguments& o) {
  if (is_standard_output(o.out) && o.common.json)
    throw bad_input("--json and --out {} both write standard output", o.out);
  const std::vector<std::string> texts = read_texts(o.texts);
  const auto encoder = load_encoder(o.model, o.common, o.kv_type);
  const TextEncoderFacts& facts = encoder->facts();
  const Cancelable cancelable;
  o.embed.pooling = o.pooling;
  if (o.normalized_given->given()) o.embed.normalized = o.normalized;
  o.embed.prompt = prompt_of(o, facts);
  o.embed.cancel = cancelable.flag();
  if (o.common.verbose()) {
    report("note", fmt::format("{}  {}: {} pooling, {} dimensions, texts of {} tokens at most", facts.device_id,
                               printable(facts.name), o.pooling.empty() ? facts.pooling : o.pooling, facts.dimensions,
                               facts.most_tokens));
  }
  std::vector<float> vectors;
  {
    ProgressBar bar("embedding", texts.size() > static_cast<size_t>(o.embed.batch));
    o.embed.progress = [&](double share) { bar.show(share); };
    vectors = encoder->embed(texts, o.embed);
  }
  const auto width = static_cast<size_t>(o.embed.dimensions > 0 ? o.embed.dimensions : facts.dimensions);
  if (!o.out.empty()) {
    const int64_t shape[] = {std::ssize(texts), static_cast<int64_t>(width)};
    const std::string start = npy_start<float>(o.out, vectors, shape);
    const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), std::as_bytes(std::span(vectors))};
    write_output(o.out, pieces);
  }
  if (o.common.json) {
    print_document(facts, vectors, width);
  } else if (o.out.empty()) {
    print_vectors(vectors, width);
  }
  return 0;
}

}  // namespace

void add_embed(Command root) {
  Command command = root.subcommand("embed", "Turn texts into vectors");
  const auto o = std::make_shared<EmbedArguments>();
  add_model(command, o->model);
  add_texts(command, o->texts, "TEXT", "The texts");
  command.option("--out", o->out, "File to write: float32 [texts, dimensions]; -: standard output")
      .placeholder("FILE.npy")
      .file(FileUse::kStream);
  command
      .option("--pooling", o->pooling, "How the tokens' states become one vector, in place of the model's own choice")
      .one_of({"mean", "cls", "last", "max"})
      .placeholder("mean|cls|last|max");
  o->normalized_given = command.flag("--normalize,!--no-normalize", o->normalized,
                                     "Make the vectors' length 1 (the default where the model does not say another)");
  Option prefix = command.option("--prefix", o->prefix, "A text that stands before each").takes_text();
  command.option("--prompt-name", o->prompt_name, "A prompt of the model's files that stands before each: query, ...")
      .placeholder("NAME")
      .excludes(prefix);
  command.number("--dimensions", o->embed.dimensions, "The first numbers of each vector (Matryoshka); 0: all")
      .range(0, 1 << 20);
  command.number("--batch", o->embed.batch, "Texts that are computed together").range(1, 1 << 16);
  command.flag("--truncate", o->embed.truncated, "Cut texts that are too long; else they are refused");
  add_kv_type(command, o->kv_type).default_text("f32: a text encoder keeps no keys and values, and takes no other");
  add_device_options(command, o->common);
  add_check_weights(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro embed MODEL \"A text\" \"Another text\"");
  command.example("gabbro embed MODEL --file texts.txt --out vectors.npy");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
