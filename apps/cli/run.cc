// `run`: one answer to a prompt from the command line or a pipe, or a chat on a terminal.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/cli/batch.h"
#include "apps/cli/chat.h"
#include "apps/cli/commands.h"
#include "apps/cli/conversation.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/prompt_input.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

struct Options {
  CommonOptions common;
  GenerationOptions generation;
  std::string model;
  PromptInput input;
  BatchInput batch;
  bool stats = false;
  bool wrap = true;
};

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
  say(fmt::format(
      "prompt {} tokens ({} cached) in {:.2f} s, {:.1f} tokens/s; generated {} in {:.2f} s, {:.1f} tokens/s; "
      "{}, seed {}\n",
      r.prompt_tokens, r.cached_tokens, r.prefill_seconds, rate(computed, r.prefill_seconds), r.token_ids.size(),
      r.decode_seconds, rate(generated, r.decode_seconds), stop_reason_name(r.stop_reason), seed));
}

void note(const Options& o, const std::string& text) {
  if (o.common.log_level != "error") report("note", text);
}

int answer_once(Conversation& conversation, const std::string& prompt, const Options& o, const ModelFacts& facts) {
  const Cancelable cancelable;
  TextOutput output(o.wrap ? TextOutput::Lines::kWrapped : TextOutput::Lines::kAsTheyAre);
  const auto stream = [&](std::string_view text) { output.write(text); };
  const GenerateResult result = o.common.json ? conversation.say(prompt, {}, cancelable.flag())
                                              : conversation.say(prompt, stream, cancelable.flag());
  if (o.common.json) {
    print_document(result, o, facts);
  } else {
    output.end_line();
  }
  if (const std::string cut = describe_cut(result, o.generation.generate, facts); !cut.empty()) note(o, cut);
  if (o.stats || o.common.verbose()) report_speed(result, o.generation.generate.sampler.seed);
  return result.stop_reason == StopReason::kCanceled ? static_cast<int>(ErrorCode::kInterrupted) : 0;
}

int run(Options& o) {
  finish(o.generation);
  std::vector<std::string> prompts;
  if (!o.batch.file.empty()) {
    if (o.input.prompt || !o.input.file.empty()) throw bad_input("--prompts takes the place of PROMPT and --file");
    prompts = read_prompts(o.batch.file);
  }
  const bool interactive = prompts.empty() && is_interactive(o.input);
  std::string prompt;
  if (interactive) {
    if (o.common.json) throw bad_input("--json needs a prompt");
  } else if (prompts.empty()) {
    prompt = read_prompt(o.input);
  }
  const int64_t sequences = std::min(std::ssize(prompts), o.batch.parallel);
  const auto engine = load_engine(o.model, o.common, o.generation.context, o.generation.kv_type, nullptr, sequences);
  const std::string sampling = apply_sampling_defaults(o.generation, engine->sampling_defaults(), interactive);
  if (is_terminal(STDERR_FILENO) || o.common.verbose()) say(describe(engine->facts()) + "\n");
  if (o.common.verbose()) say(sampling + "\n");
  if (!prompts.empty()) return answer_all(engine, prompts, o.generation, o.common);
  Conversation conversation(engine, o.generation, [&](const std::string& text) { note(o, text); });
  if (!conversation.uses_template() && !o.generation.raw) {
    report("note", "the model has no chat template: it continues the text as it is (--raw)");
  }
  if (!interactive) return answer_once(conversation, prompt, o, engine->facts());
  return chat(conversation, o.wrap, [&](const GenerateResult& result) {
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
  add_prompt(command, o->input);
  add_batch(command, o->batch);
  add_generation_options(command, o->generation);
  command.flag("--stats,--verbose", o->stats, "End with a line about speed on standard error");
  add_device_options(command, o->common);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  command.flag("--wrap,!--no-wrap", o->wrap, "Wrap long lines at words on a terminal (the default)")
      .alias("!--nowordwrap");
  add_output_options(command, o->common);
  accept_options_of_other_programs(command);
  command.example("gabbro run smollm2-135m-instruct-q4_1 \"What is the capital of France?\"");
  command.example("cat notes.txt | gabbro run MODEL \"Summarize this:\"");
  command.example("gabbro run MODEL --raw -n 20 \"Once upon a time\"");
  command.example("gabbro run MODEL --prompts questions.txt > answers.jsonl");
  command.example("while read -r line; do gabbro run MODEL --no-stdin -- \"$line\"; done < questions.txt");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
