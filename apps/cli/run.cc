// `run`: one answer to a prompt from the command line or a pipe, or a chat on a terminal.
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/cli/chat.h"
#include "apps/cli/commands.h"
#include "apps/cli/conversation.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

struct Options {
  CommonOptions common;
  GenerationOptions generation;
  std::string model;
  std::optional<std::string> prompt;
  bool stats = false;
};

// A pipe or a file; a terminal is for chatting, and /dev/null and the like say nothing.
bool standard_input_has_text() {
  struct stat info = {};
  if (fstat(STDIN_FILENO, &info) != 0) return false;
  return S_ISFIFO(info.st_mode) || S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode);
}

// The argument, the pipe's text, or the one and below it the other.
std::string prompt_of(const Options& o) {
  std::string piped;
  if (standard_input_has_text()) {
    piped = read_standard_input();
    if (piped.ends_with('\n')) piped.pop_back();  // the one that ends the last line
  }
  if (o.prompt && !piped.empty()) return *o.prompt + "\n\n" + piped;
  return o.prompt.value_or(piped);
}

double rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

void print_document(const GenerateResult& r, const Options& o, const ModelFacts& facts) {
  print_json({{"text", r.text},
              {"token_ids", r.token_ids},
              {"prompt_tokens", r.prompt_tokens},
              {"generated_tokens", r.token_ids.size()},
              {"prefill_seconds", r.prefill_seconds},
              {"decode_seconds", r.decode_seconds},
              {"tokens_per_second", rate(static_cast<double>(r.token_ids.size()), r.decode_seconds)},
              {"stop_reason", stop_reason_name(r.stop_reason)},
              {"device", facts.device_id},
              {"model", facts.name},
              {"seed", o.generation.generate.sampler.seed}});
}

void report_speed(const GenerateResult& r, uint64_t seed) {
  const auto computed = static_cast<double>(r.prompt_tokens - r.cached_tokens);
  const auto generated = static_cast<double>(r.token_ids.size());
  fmt::print(stderr,
             "prompt {} tokens ({} cached) in {:.2f} s, {:.1f} tokens/s; generated {} in {:.2f} s, {:.1f} tokens/s; "
             "{}, seed {}\n",
             r.prompt_tokens, r.cached_tokens, r.prefill_seconds, rate(computed, r.prefill_seconds), r.token_ids.size(),
             r.decode_seconds, rate(generated, r.decode_seconds), stop_reason_name(r.stop_reason), seed);
}

void note(const Options& o, const std::string& text) {
  if (o.common.log_level != "error") report("note", text);
}

int answer_once(Conversation& conversation, const std::string& prompt, const Options& o, const ModelFacts& facts) {
  const Cancellable cancellable;
  bool ends_line = true;
  const auto stream = [&](std::string_view text) {
    print(text);
    ends_line = text.ends_with('\n');
  };
  const GenerateResult result = o.common.json ? conversation.say(prompt, {}, cancellable.flag())
                                              : conversation.say(prompt, stream, cancellable.flag());
  if (o.common.json) {
    print_document(result, o, facts);
  } else if (!ends_line) {
    print("\n");
  }
  if (const std::string cut = describe_cut(result, o.generation.generate, facts); !cut.empty()) note(o, cut);
  if (o.stats || o.common.verbose()) report_speed(result, o.generation.generate.sampler.seed);
  return result.stop_reason == StopReason::kCancelled ? static_cast<int>(ErrorCode::kInterrupted) : 0;
}

int run(Options& o) {
  finish(o.generation);
  const bool interactive = !o.prompt && is_terminal(STDIN_FILENO);
  std::string prompt;
  if (interactive) {
    if (o.common.json) throw bad_input("--json needs a prompt");
  } else {
    prompt = prompt_of(o);
    if (prompt.empty()) {
      throw Error(ErrorCode::kBadInput, "the prompt is empty", "gabbro run MODEL \"What is ...?\"");
    }
  }
  const auto engine = load_engine(o.model, o.common, o.generation.context, o.generation.kv_type);
  const std::string sampling = apply_sampling_defaults(o.generation, engine->sampling_defaults(), interactive);
  if (is_terminal(STDERR_FILENO) || o.common.verbose()) fmt::print(stderr, "{}\n", describe(engine->facts()));
  if (o.common.verbose()) fmt::print(stderr, "{}\n", sampling);
  Conversation conversation(engine, o.generation, [&](const std::string& text) { note(o, text); });
  if (!conversation.uses_template() && !o.generation.raw) {
    report("note", "the model has no chat template: it continues the text as it is (--raw)");
  }
  if (!interactive) return answer_once(conversation, prompt, o, engine->facts());
  return chat(conversation, [&](const GenerateResult& result) {
    if (const std::string cut = describe_cut(result, o.generation.generate, engine->facts()); !cut.empty())
      note(o, cut);
    if (o.stats || o.common.verbose()) report_speed(result, o.generation.generate.sampler.seed);
  });
}

}  // namespace

void add_run(Command root) {
  Command command = root.subcommand("run", "Chat with a language model, or complete a text");
  const auto o = std::make_shared<Options>();
  add_model(command, o->model);
  command.option("PROMPT", o->prompt,
                 "What to say; the text of a pipe is added below it. Without either, a chat begins");
  add_generation_options(command, o->generation);
  command.flag("--stats,--verbose", o->stats, "End with a line about speed on standard error");
  add_device_options(command, o->common);
  add_output_options(command, o->common);
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
