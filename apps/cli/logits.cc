// `logits`: the model's output for every one of the given tokens, as a NumPy file.
#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/base/npy.h"

namespace gabbro::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  std::string tokens;
  std::string out;
};

void check_tokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  for (const int32_t token : tokens) {
    if (token >= vocabulary) {
      throw bad_input("--tokens: {} is outside the vocabulary of {} tokens", token, vocabulary);
    }
  }
}

int run(const Options& o) {
  if (is_standard_output(o.out) && o.common.json)
    throw bad_input("--json and --out {} both write standard output", o.out);
  const auto tokens = parse_token_list(o.tokens, "--tokens");
  const auto engine = load_engine(o.model, o.common, std::ssize(tokens));
  const int64_t vocabulary = engine->facts().vocabulary;
  check_tokens(tokens, vocabulary);
  const Cancelable cancelable;
  Session session(engine);
  const auto logits = session.append_all_logits(tokens, cancelable.flag());  // [tokens, V]
  const int64_t shape[] = {std::ssize(tokens), vocabulary};
  const std::string start = npy_start(o.out, logits, shape);
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(start)), std::as_bytes(logits)};
  write_output(o.out, pieces);
  if (o.common.verbose()) {
    report("note", fmt::format("{}: float32 [{}, {}]", o.out, tokens.size(), vocabulary));
  }
  return 0;
}

}  // namespace

void add_logits(Command root) {
  Command command = root.subcommand("logits", "Write the logits after each of the given tokens");
  const auto o = std::make_shared<Options>();
  add_model(command, o->model);
  command.option("--tokens", o->tokens, "The tokens").placeholder("1,2,3").required();
  command.option("--out", o->out, "File to write: float32 [tokens, vocabulary]; -: standard output")
      .placeholder("FILE.npy")
      .required();
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  add_lora(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro logits MODEL --tokens 1,2,3 --out logits.npy");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
