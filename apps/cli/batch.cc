#include "apps/cli/batch.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/interrupt.h"
#include "apps/cli/prompt_encoder.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// The rows of a file, with what is printed of each as soon as all before it are done.
class Answers {
 public:
  Answers(std::vector<PromptRow> rows, const std::string& file, const CommonOptions& common)
      : rows_(std::move(rows)), done_(rows_.size()), file_(file), common_(common), bar_("answers", true) {}

  std::vector<PromptRow>& rows() { return rows_; }

  void answered(size_t index, const GenerateResult& result) {
    Json row = start_of(index);
    row["text"] = result.text;
    row["token_ids"] = result.token_ids;
    row["prompt_tokens"] = result.prompt_tokens;
    row["generated_tokens"] = result.token_ids.size();
    if (result.passes > 0) {  // tokens are drafted
      row["drafted_tokens"] = result.drafted_tokens;
      row["accepted_tokens"] = result.accepted_tokens;
    }
    row["stop_reason"] = stop_reason_name(result.stop_reason);
    tokens_ += std::ssize(result.token_ids);
    canceled_ = canceled_ || result.stop_reason == StopReason::kCanceled;
    finish(index, std::move(row));
  }

  void failed(size_t index, const std::string& error) {
    Json row = start_of(index);
    row["error"] = error;
    ++failed_;
    if (!common_.json) report("error", fmt::format("{}:{}: {}", file_, rows_[index].line, error));
    finish(index, std::move(row));
  }

  void print_end(double seconds, const ModelFacts& facts) {
    const double speed = seconds > 0 ? static_cast<double>(tokens_) / seconds : 0;
    if (common_.json) {
      print_json({{"results", std::move(done_)},
                  {"failed", failed_},
                  {"generated_tokens", tokens_},
                  {"seconds", seconds},
                  {"tokens_per_second", speed},
                  {"device", facts.device_id},
                  {"model", facts.name}});
    } else if (common_.verbose()) {
      say(fmt::format("{} prompts, {} tokens in {:.2f} s, {:.1f} tokens/s\n", rows_.size(), tokens_, seconds, speed));
    }
  }

  bool canceled() const { return canceled_; }
  int exit_code() const { return failed_ > 0 ? static_cast<int>(ErrorCode::kFailed) : 0; }

 private:
  Json start_of(size_t index) const {
    const PromptRow& row = rows_[index];
    Json start = {{"index", index}, {"line", row.line}};
    if (!row.id.is_null()) start["id"] = row.id;
    if (!row.prompt.is_null()) start["prompt"] = row.prompt;
    return start;
  }

  void finish(size_t index, Json row) {
    done_[index] = std::move(row);
    bar_.show(static_cast<double>(++finished_) / static_cast<double>(done_.size()));
    if (common_.json) return;
    for (; printed_ < done_.size() && !done_[printed_].is_null(); ++printed_) {
      print(one_line_json(done_[printed_]) + "\n");
      done_[printed_] = true;  // which takes no memory
    }
  }

  std::vector<PromptRow> rows_;
  std::vector<Json> done_;
  const std::string& file_;
  const CommonOptions& common_;
  ProgressBar bar_;
  size_t finished_ = 0, printed_ = 0, failed_ = 0;
  int64_t tokens_ = 0;
  bool canceled_ = false;
};

}  // namespace

void add_batch(Command command, BatchInput& input) {
  command
      .option("--prompts", input.file,
              "Answer every line of a file: a prompt, or a JSON object with \"prompt\" or \"messages\" and settings of "
              "its own; prints a JSON object per line; -: standard input")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command.number("--parallel", input.parallel, "Prompts of --prompts that are computed together").range(1, 256);
}

namespace {

// The events of a row's request.
class RowChannel final : public Channel {
 public:
  RowChannel(Answers& answers, size_t row) : answers_(answers), row_(row) {}
  void finished(GenerateResult result) override { answers_.answered(row_, result); }
  void failed(const Error& error) override { answers_.failed(row_, error.what()); }

 private:
  Answers& answers_;
  const size_t row_;
};

}  // namespace

int answer_all(const std::shared_ptr<ModelService>& model, const std::string& file,
               const std::vector<PromptLine>& lines, const GenerationOptions& options, const CommonOptions& common) {
  PromptEncoder encoder(model, options, [&](const std::string& text) {
    if (common.log_level != "error") report("note", text);
  });
  std::vector<PromptRow> rows;
  for (const PromptLine& line : lines) rows.push_back(read_row(line, options));
  Answers answers(std::move(rows), file, common);
  for (size_t i = 0; i < answers.rows().size(); ++i) {
    PromptRow& row = answers.rows()[i];
    if (row.error.empty()) {
      try {
        model->add({encoder.encode(row.messages, row.tools), row.generate}, std::make_shared<RowChannel>(answers, i));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kBadInput) throw;
        row.error = error.what();
      }
    }
    row.messages = row.tools = nullptr;
    if (!row.error.empty()) answers.failed(i, row.error);
  }
  const Cancelable cancelable;
  const auto start = Clock::now();
  while (model->step(cancelable.flag())) {
  }
  answers.print_end(std::chrono::duration<double>(Clock::now() - start).count(), model->facts());
  if (answers.canceled()) exit_interrupted();
  return answers.exit_code();
}

}  // namespace gabbro::cli
