// `perplexity`: how well a model predicts a text. The convention is llama.cpp's, so that figures can be compared: the
// text is cut into chunks of --ctx tokens, each begins with bos where the model wants one, and the second half counts.
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/finite_output.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/split_options.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/text/tokenizer.h"

namespace gabbro::cli {
namespace {

constexpr size_t kLogitRows = 256;  // tokens whose logits are held at once: 50 MB at V = 49,152

struct PerplexityOptions {
  CommonOptions common;
  std::string model;
  std::string file;
  int context = 512;
  std::optional<std::string> kv_type;
};

struct Sum {
  double surprise = 0;  // nats
  double squares = 0;
  int64_t tokens = 0;

  void add(double nats) {
    surprise += nats;
    squares += nats * nats;
    ++tokens;
  }
  double mean() const { return surprise / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(mean()); }
  double standard_error() const {  // of the perplexity, to first order
    if (tokens < 2) return 0;
    const double variance = squares / static_cast<double>(tokens) - mean() * mean();
    return perplexity() * std::sqrt(std::max(0.0, variance) / static_cast<double>(tokens - 1));
  }
};

double surprise(std::span<const float> logits, int32_t token) {
  float largest = logits[0];
  for (const float x : logits) largest = std::max(largest, x);
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - largest);
  return std::log(sum) - (static_cast<double>(logits[static_cast<size_t>(token)]) - largest);
}

// Throws failed() that names `where` and the token for logits that are not numbers.
void add_chunk(Sum& sum, Session& session, std::span<const int32_t> chunk, const std::string& model,
               const std::string& where, const std::atomic<bool>* cancel) {
  const size_t first = chunk.size() / 2;
  session.truncate(0);
  session.expect(std::ssize(chunk));
  session.append(chunk.first(first), cancel);
  for (size_t start = first; start + 1 < chunk.size(); start += kLogitRows) {
    const size_t count = std::min(kLogitRows, chunk.size() - 1 - start);
    const auto logits = session.append_all_logits(chunk.subspan(start, count), cancel);
    const size_t vocabulary = logits.size() / count;
    if (const std::string place = find_damage(logits, static_cast<int64_t>(vocabulary)); !place.empty())
      throw not_a_number(model, fmt::format("{}, logits from token {} on", where, start), place);
    for (size_t i = 0; i < count; ++i) {
      sum.add(surprise(logits.subspan(i * vocabulary, vocabulary), chunk[start + i + 1]));
    }
  }
}

int run(const PerplexityOptions& o) {
  const std::string text = read_input(o.file);
  const auto engine = load_engine(o.model, o.common, {.context = o.context, .kv_type = o.kv_type});
  const text::Tokenizer& tokenizer = engine->tokenizer();
  std::vector<int32_t> tokens = tokenizer.encode(text);
  const auto context = static_cast<size_t>(o.context);
  if (tokens.size() < 2 * context) {
    throw Error(ErrorCode::kBadInput,
                fmt::format("{}: {} tokens are too few: --ctx {} needs at least {}", o.file, tokens.size(), context,
                            2 * context),
                "give a longer text, or a smaller --ctx");
  }
  const size_t chunks = tokens.size() / context;
  Session session(engine);
  Sum sum;
  {
    const Cancelable cancelable;
    ProgressBar bar("perplexity", !o.common.json);
    for (size_t i = 0; i < chunks; ++i) {
      const std::span<int32_t> chunk(tokens.data() + i * context, context);
      if (tokenizer.adds_bos()) chunk[0] = tokenizer.bos();
      add_chunk(sum, session, chunk, o.model, fmt::format("chunk {}", i + 1), cancelable.flag());
      bar.show(static_cast<double>(i + 1) / static_cast<double>(chunks));
    }
  }
  if (!std::isfinite(sum.perplexity())) throw failed("{}: the model's output is not a number", o.model);
  if (o.common.json) {
    print_json({{"perplexity", sum.perplexity()},
                {"tokens", sum.tokens},
                {"chunks", chunks},
                {"standard_error", sum.standard_error()},
                {"ctx", o.context},
                {"kv_type", dtype_name(engine->facts().kv_type)},
                {"model", engine->facts().name}});
  } else {
    print(fmt::format("perplexity {:.4f} +/- {:.4f} ({} tokens in {} chunks of {})\n", sum.perplexity(),
                      sum.standard_error(), sum.tokens, chunks, context));
  }
  return 0;
}

}  // namespace

void add_perplexity(Command root) {
  Command command = root.subcommand("perplexity", "Measure how well a model predicts a text");
  const auto o = std::make_shared<PerplexityOptions>();
  add_model(command, o->model);
  command.option("-f,--file", o->file, "The text; -: standard input")
      .placeholder("FILE")
      .file(FileUse::kInput)
      .required();
  command.number("-c,--ctx", o->context, "Tokens in a chunk; only its second half counts")
      .alias("--ctx-size")
      .range(8, 1 << 24);
  add_kv_type(command, o->kv_type);
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_split_options(command, o->common.several);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  add_lora(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro perplexity MODEL --file wikitext.txt --ctx 512");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
