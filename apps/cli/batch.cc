#include "apps/cli/batch.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/interrupt.h"
#include "apps/cli/prompt_encoder.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/engine/batch.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// The prompt of a JSON object {"prompt": text}.
std::string prompt_of(const std::string& line, const std::string& file, size_t number) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("prompt") || !object["prompt"].is_string()) {
    throw Error(ErrorCode::kBadInput, fmt::format("{}:{}: is no JSON object with a text \"prompt\"", file, number),
                "a line that begins with { is JSON; other lines are prompts as they are");
  }
  return object["prompt"].get<std::string>();
}

Json row_of(size_t index, const std::string& prompt, const GenerateResult& result) {
  return {{"index", index},
          {"prompt", prompt},
          {"text", result.text},
          {"token_ids", result.token_ids},
          {"prompt_tokens", result.prompt_tokens},
          {"generated_tokens", result.token_ids.size()},
          {"stop_reason", stop_reason_name(result.stop_reason)}};
}

}  // namespace

void add_batch(Command command, BatchInput& input) {
  command
      .option(
          "--prompts", input.file,
          "Answer every line of a file: a prompt, or a JSON object with \"prompt\"; prints a JSON object per line; -: "
          "standard input")
      .placeholder("FILE");
  command.number("--parallel", input.parallel, "Prompts of --prompts that are computed together").range(1, 256);
}

std::vector<std::string> read_prompts(const std::string& file) {
  const std::string text = read_input(file);
  std::vector<std::string> prompts;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    prompts.push_back(line.starts_with('{') ? prompt_of(line, file, number) : std::move(line));
  }
  if (prompts.empty()) throw bad_input("{}: there is no prompt in it", file);
  return prompts;
}

int answer_all(const std::shared_ptr<Engine>& engine, const std::vector<std::string>& prompts,
               const GenerationOptions& options, const CommonOptions& common) {
  PromptEncoder encoder(engine, options, [&](const std::string& text) {
    if (common.log_level != "error") report("note", text);
  });
  std::vector<Request> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Json messages = Json::array();
    if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
    messages.push_back({{"role", "user"}, {"content", prompts[i]}});
    try {
      requests.emplace_back(*engine, encoder.encode(messages), options.generate);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("prompt {}: {}", i + 1, error.what()), error.hint());
    }
  }
  const Cancelable cancelable;
  ProgressBar bar("answers", true);
  std::vector<std::optional<GenerateResult>> results(requests.size());
  size_t finished = 0, printed = 0;
  int64_t tokens = 0;
  bool canceled = false;
  Json rows = Json::array();
  const auto on_finished = [&](size_t index) {
    results[index] = requests[index].take();
    tokens += std::ssize(results[index]->token_ids);
    canceled = canceled || results[index]->stop_reason == StopReason::kCanceled;
    bar.show(static_cast<double>(++finished) / static_cast<double>(requests.size()));
    for (; printed < results.size() && results[printed]; ++printed) {
      Json row = row_of(printed, prompts[printed], *results[printed]);
      if (common.json) {
        rows.push_back(std::move(row));
      } else {
        print(one_line_json(row) + "\n");
      }
    }
  };
  const auto start = Clock::now();
  run_batch(engine, requests, {.on_finished = on_finished, .cancel = cancelable.flag()});
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (common.json) {
    print_json({{"results", rows},
                {"generated_tokens", tokens},
                {"seconds", seconds},
                {"tokens_per_second", static_cast<double>(tokens) / seconds},
                {"device", engine->facts().device_id},
                {"model", engine->facts().name}});
  } else if (common.verbose()) {
    say(fmt::format("{} prompts, {} tokens in {:.2f} s, {:.1f} tokens/s\n", prompts.size(), tokens, seconds,
                    static_cast<double>(tokens) / seconds));
  }
  return canceled ? static_cast<int>(ErrorCode::kInterrupted) : 0;
}

}  // namespace gabbro::cli
