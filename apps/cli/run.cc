// `run`: one answer to a prompt from the command line or a pipe, or a chat on a terminal.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/cli/batch.h"
#include "apps/cli/chat.h"
#include "apps/cli/commands.h"
#include "apps/cli/conversation.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/input_files.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/output_format.h"
#include "apps/cli/processes.h"
#include "apps/cli/prompt_input.h"
#include "apps/cli/source_layers.h"
#include "apps/cli/split_options.h"
#include "apps/cli/terminal.h"
#include "apps/cli/tool_commands.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

struct RunOptions {
  CommonOptions common;
  GenerationOptions generation;
  std::string model;
  PromptInput input;
  BatchInput batch;
  FormatOptions format;
  std::string tools;  // a file
  bool yes = false;
  std::string draft;     // a model
  int draft_tokens = 0;  // 0: as many as suit
  bool deterministic = false;
  bool lookup = false, no_lookup = false;
  bool stats = false;
  bool wrap = true;
};

double per_second(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

// `calls`: that were not run; null: there are no tools.
void print_document(const GenerateResult& r, const nlohmann::ordered_json& calls, const RunOptions& o,
                    const ModelService& model) {
  const ModelFacts& facts = model.facts();
  nlohmann::ordered_json document(
      {{"text", r.text},
       {"token_ids", r.token_ids},
       {"prompt_tokens", r.prompt_tokens},
       {"generated_tokens", r.token_ids.size()},
       {"prefill_seconds", r.prefill_seconds},
       {"decode_seconds", r.decode_seconds},
       {"tokens_per_second", per_second(static_cast<double>(r.token_ids.size()), r.decode_seconds)},
       {"stop_reason", stop_reason_name(r.stop_reason)},
       {"drafted_tokens", r.drafted_tokens},
       {"accepted_tokens", r.accepted_tokens},
       {"device", facts.device_id},
       {"model", facts.name},
       {"seed", o.generation.generate.sampler.seed}});
  if (!calls.is_null()) document["calls"] = calls;
  if (facts.streaming.bytes_per_pass > 0) document["streaming"] = streaming_document(facts, model.streaming_work());
  print_json(document);
}

void report_speed(const GenerateResult& r, uint64_t seed) {
  const auto computed = static_cast<double>(r.prompt_tokens - r.cached_tokens);
  const auto generated = static_cast<double>(r.token_ids.size());
  say(fmt::format(
      "prompt {} tokens ({} cached) in {:.2f} s, {:.1f} tokens/s; generated {} in {:.2f} s, {:.1f} tokens/s; "
      "{}, seed {}\n",
      r.prompt_tokens, r.cached_tokens, r.prefill_seconds, per_second(computed, r.prefill_seconds), r.token_ids.size(),
      r.decode_seconds, per_second(generated, r.decode_seconds), stop_reason_name(r.stop_reason), seed));
}

void note(const RunOptions& o, const std::string& text) {
  if (o.common.log_level != "error") report("note", text);
}

int answer_once(Conversation& conversation, const ToolCommands* tools, const std::string& prompt, const RunOptions& o,
                const ModelService& model) {
  const ModelFacts& facts = model.facts();
  const bool prints = !o.common.json;
  GenerateResult result;
  const auto answer = [&](const nlohmann::ordered_json* results) {
    const Cancelable cancelable;
    TextOutput output(o.wrap ? TextOutput::Lines::kWrapped : TextOutput::Lines::kAsTheyAre);
    std::function<void(std::string_view)> stream;
    if (prints) stream = [&](std::string_view text) { output.write(text); };
    result = results != nullptr ? conversation.go_on(*results, stream, cancelable.flag())
                                : conversation.say(prompt, stream, cancelable.flag());
    if (prints) output.end_line();
  };
  answer(nullptr);
  nlohmann::ordered_json calls;
  if (tools != nullptr) calls = tools->follow(conversation, [&](const auto& results) { answer(&results); });
  if (prints) print_calls(calls);
  if (!prints) print_document(result, calls, o, model);
  if (const std::string cut = describe_cut(result, o.generation.generate, facts); !cut.empty()) note(o, cut);
  if (o.stats || o.common.verbose()) report_speed(result, o.generation.generate.sampler.seed);
  if (prints && o.common.log_level != "error") say(describe_streaming(facts, model.streaming_work()));
  if (result.stop_reason == StopReason::kCanceled) exit_interrupted();
  return 0;
}

RunTools read_tools(const RunOptions& o) {
  if (o.tools.empty()) return {};
  if (o.generation.raw) throw bad_input("--tools needs a chat template, which --raw does without");
  if (!o.batch.file.empty()) throw bad_input("--tools does not go with --prompts: its lines may have \"tools\"");
  if (!o.generation.generate.format.is_text())
    throw bad_input("--tools does not go with --schema, --grammar and --regex");
  RunTools tools = RunTools::read(o.tools);
  if (tools.has_commands() && !o.yes && !(is_terminal(STDIN_FILENO) && is_terminal(STDERR_FILENO)))
    throw Error(ErrorCode::kBadInput, "--tools: there is no terminal to ask before a tool's command is run",
                "--yes runs commands without a question; calls of tools without \"command\" are printed");
  return tools;
}

int run(RunOptions& o, const InputFiles& inputs) {
  join_processes(o.common);
  if (o.common.several.over_processes) o.input.no_stdin = true;  // rank 0 alone has one
  finish(o.generation);
  o.generation.generate.format = read_output_format(o.format);
  const RunTools tools = read_tools(o);
  std::vector<PromptLine> prompts;
  if (!o.batch.file.empty()) {
    if (o.input.prompt || !o.input.file.empty()) throw bad_input("--prompts takes the place of PROMPT and --file");
    prompts = read_prompt_lines(o.batch.file);
  }
  const bool interactive = prompts.empty() && is_interactive(o.input);
  std::string prompt;
  if (interactive) {
    if (o.common.json) throw bad_input("--json needs a prompt");
  } else if (prompts.empty()) {
    prompt = read_prompt(o.input);
  }
  const ResolvedModel resolved = resolve_with_layers(o.model);
  apply_layers(resolved.layers, o.generation, o.common);
  finish(o.generation);  // of the values that are the source's
  const EngineNeeds needs = {
      .context = o.generation.context,
      .kv_type = o.generation.kv_type,
      .sequences = o.deterministic ? o.batch.parallel : std::min(std::ssize(prompts), o.batch.parallel)};
  const auto service = load_service(resolved, o.common,
                                    {.engine = needs,
                                     .deterministic = o.deterministic,
                                     .restarts = interactive || !prompts.empty(),
                                     .draft = o.draft,
                                     .draft_tokens = o.draft_tokens,
                                     .lookup = o.lookup,
                                     .no_lookup = o.no_lookup});
  const std::string sampling = apply_sampling_defaults(o.generation, service->sampling_defaults(), interactive);
  share_with_processes(o.generation.generate.sampler.seed);
  if (is_terminal(STDERR_FILENO) || o.common.verbose()) say(describe(*service) + "\n");
  if (o.common.verbose()) say(sampling + "\n");
  if (!prompts.empty()) return answer_all(service, o.batch.file, prompts, o.generation, o.common);
  Conversation conversation(service, o.generation, [&](const std::string& text) { note(o, text); });
  if (!conversation.uses_template() && !o.generation.raw) {
    report("note", "the model has no chat template: it continues the unchanged text (--raw)");
  }
  if (!tools.empty()) conversation.set_tools(tools);
  const ToolCommands commands(tools, !o.yes);
  const ToolCommands* const used = tools.empty() ? nullptr : &commands;
  if (!interactive) return answer_once(conversation, used, prompt, o, *service);
  return chat(conversation, used, inputs, o.wrap, [&](const GenerateResult& result) {
    if (const std::string cut = describe_cut(result, o.generation.generate, service->facts()); !cut.empty())
      note(o, cut);
    if (o.stats || o.common.verbose()) report_speed(result, o.generation.generate.sampler.seed);
  });
}

}  // namespace

void add_run(Command root) {
  Command command = root.subcommand("run", "Chat with a language model, or complete a text");
  const auto o = std::make_shared<RunOptions>();
  add_model(command, o->model);
  add_prompt(command, o->input);
  add_batch(command, o->batch);
  add_generation_options(command, o->generation);
  add_output_format(command, o->format);
  Option tools =
      command
          .option("--tools", o->tools,
                  "Tools that the model may call: the list of `template --tools`. A tool's \"command\", a list "
                  "of a program and its arguments, is run for its calls; other calls are printed; -: "
                  "standard input")
          .placeholder("FILE.json")
          .file(FileUse::kInput);
  command.flag("--yes", o->yes, "Run commands of --tools without a question").needs(tools);
  command
      .option("--draft", o->draft,
              "Smaller model with the same vocabulary whose tokens the model checks, several in one pass; the output "
              "stays the model's own")
      .placeholder("MODEL")
      .file(FileUse::kModel);
  command.flag("--lookup", o->lookup,
               "Let the model check what followed the same words before, several tokens in one pass (always with "
               "streamed weights)");
  command.flag("--no-lookup", o->no_lookup, "One token in each pass, also with streamed weights");
  command.number("--draft-tokens", o->draft_tokens, "Tokens to check in one pass at most; 0: as many as suit")
      .range(0, 256);
  command.flag("--deterministic", o->deterministic,
               "Give each of several prompts the tokens that it gets alone, to the bit; slower");
  command.flag("--stats,--verbose", o->stats, "End with a line about speed on standard error");
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_split_options(command, o->common.several);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  add_lora(command, o->common);
  command.flag("--wrap,!--no-wrap", o->wrap, "Wrap long lines at words on a terminal (the default)")
      .alias("!--nowordwrap");
  add_output_options(command, o->common);
  accept_options_of_other_programs(command);
  command.example("gabbro run smollm2-135m-instruct-q4_1 \"What is the capital of France?\"");
  command.example("cat notes.txt | gabbro run MODEL \"Summarize this:\"");
  command.example("gabbro run MODEL --raw -n 20 \"Once upon a time\"");
  command.example("gabbro run MODEL --prompts questions.txt > answers.jsonl");
  command.example("gabbro run MODEL --schema person.json \"Invent a person\"");
  command.example("gabbro run MODEL --tools tools.json \"What is the weather in Rome?\"");
  command.example("while read -r line; do gabbro run MODEL --no-stdin -- \"$line\"; done < questions.txt");
  command.footer(
      "A line of --prompts that is a JSON object may have \"id\", \"system\", \"tools\", \"max_tokens\", \"stop\", "
      "\"seed\" "
      "and the sampling options with underscores, \"top_p\", in place of the options. A line that cannot be answered "
      "is a "
      "row with \"error\"; then the exit code is 1.");
  command.runs([o, command] { return run(*o, inputs_of(command.spec())); });
}

}  // namespace gabbro::cli
