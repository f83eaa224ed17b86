// `pull`: downloads a model from the Hugging Face Hub into the cache that all programs of the Hub share.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/options.h"
#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/hub/pull.h"

namespace gabbro::cli {
namespace {

struct PullArguments {
  CommonOptions common;
  std::string model, revision;
  hub::PullOptions pull;
};

// One line on a terminal: share, bytes, rate of the last seconds, time left. Nothing elsewhere.
class TransferLine {
 public:
  explicit TransferLine(std::string label) : label_(std::move(label)), visible_(is_terminal(STDERR_FILENO)) {}
  ~TransferLine() {
    if (shown_) say("\r\x1b[K");
  }
  TransferLine(const TransferLine&) = delete;
  TransferLine& operator=(const TransferLine&) = delete;

  void show(uint64_t done, uint64_t total) {
    const auto now = Clock::now();
    if (!visible_ || (shown_ && now - last_ < std::chrono::milliseconds(250))) return;
    const double seconds = std::chrono::duration<double>(now - last_).count();
    const double rate = static_cast<double>(done - std::min(done, done_)) / std::max(seconds, 1e-3);
    // Half of the average is from the last 5 seconds.
    if (shown_) rate_ += (rate - rate_) * (1 - std::exp2(-seconds / 5)) / (1 - std::exp2(-age(now) / 5));
    const double left = static_cast<double>(total - done) / std::max(rate_, 1.0);
    const double share = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 1;
    std::string line =
        fmt::format("\r{} {:3.0f} %  {} of {}", label_, std::floor(share * 100), human_bytes(done), human_bytes(total));
    if (rate_ >= 1 && left < 1e6)
      line += fmt::format("  {}/s  {} left", human_bytes(static_cast<uint64_t>(rate_)), clock(left));
    say(line + "\x1b[K");
    shown_ = true;
    last_ = now;
    done_ = done;
  }

 private:
  using Clock = std::chrono::steady_clock;

  double age(Clock::time_point now) const { return std::max(std::chrono::duration<double>(now - start_).count(), 0.1); }

  static std::string clock(double seconds) {
    const auto whole = static_cast<int64_t>(seconds);
    return whole < 3600 ? fmt::format("{}:{:02}", whole / 60, whole % 60)
                        : fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }

  std::string label_;
  bool visible_, shown_ = false;
  double rate_ = 0;  // bytes per second
  uint64_t done_ = 0;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

void print_pulled(const hub::PullResult& result, const hub::RepoName& name, bool json) {
  if (!result.note.empty()) report("note", result.note);
  if (!json && !result.license.empty()) report("note", fmt::format("license: {}", printable(result.license)));
  if (!json && result.files.empty()) return print(result.path + "\n");
  if (!json) {
    report("note",
           fmt::format("{}: {} in {} file{}{}", result.model, human_bytes(result.bytes), result.files.size(),
                       result.files.size() == 1 ? "" : "s", result.received == 0 ? ", all of it was there" : ""));
    return print(result.path + "\n");
  }
  nlohmann::ordered_json document = {{"model", result.model},     {"repository", name.id},
                                     {"commit", result.commit},   {"path", result.path},
                                     {"bytes", result.bytes},     {"bytes_received", result.received},
                                     {"license", result.license}, {"files", nlohmann::ordered_json::array()}};
  for (const hub::RepoFile& file : result.files)
    document["files"].push_back({{"path", file.path}, {"bytes", file.size}, {"hash", file.blob}});
  print_json(document);
}

int pull_model(PullArguments& o) {
  const hub::Settings settings = hub::read_settings();
  o.pull.name = hub::require_repo_name(o.model);
  if (!o.revision.empty()) {
    if (!hub::is_revision(o.revision)) throw bad_input("--revision: '{}' is not a branch, tag or commit", o.revision);
    o.pull.name.revision = o.revision;
  }
  hub::PullResult result;
  {
    const Cancelable cancelable;
    TransferLine line(printable(o.pull.name.text()));
    o.pull.download.canceled = cancelable.flag();
    o.pull.download.progress = [&](uint64_t done, uint64_t total) { line.show(done, total); };
    result = hub::pull(settings, o.pull);
  }
  print_pulled(result, o.pull.name, o.common.json);
  return 0;
}

}  // namespace

void add_pull(Command root) {
  Command command = root.subcommand("pull", "Download a model from the Hugging Face Hub");
  const auto o = std::make_shared<PullArguments>();
  command
      .option(
          "MODEL", o->model,
          "owner/name, owner/name:q4_k_m (one quantization of a repository of GGUF files), owner/name@revision, or a "
          "short name such as qwen3:8b")
      .required();
  command.option("--revision", o->revision, "A branch, a tag or a commit").placeholder("NAME").default_text("main");
  command
      .option("--include", o->pull.include,
              "Only files that match the pattern, such as '*.safetensors'; may be repeated")
      .placeholder("PATTERN");
  command.option("--exclude", o->pull.exclude, "No files that match the pattern; may be repeated")
      .placeholder("PATTERN");
  command.number("--connections", o->pull.download.connections, "Connections at a time").range(1, 64);
  command.number("--retries", o->pull.download.retries, "Attempts without any data before it is an error")
      .range(0, 1000);
  add_output_options(command, o->common);
  command.footer(
      "Files go to the cache of huggingface_hub (HF_HUB_CACHE, HF_HOME), where its programs find them too. A download "
      "that was interrupted goes on where it was. HF_TOKEN, or the file that `hf auth login` writes, has the token for "
      "private and gated models; HF_ENDPOINT names another server. The path of the model is printed. Without network, "
      "and "
      "with HF_HUB_OFFLINE=1, it is that of what is on this machine already.");
  command.example("gabbro pull qwen3:8b");
  command.example("gabbro pull bartowski/Llama-3.2-3B-Instruct-GGUF:q4_k_m");
  command.runs([o] { return pull_model(*o); });
}

}  // namespace gabbro::cli
