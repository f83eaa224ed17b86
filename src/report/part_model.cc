// Runs a small built-in model of random weights on the device and on the CPU, then the user's model. Only numbers and
// hashes of their results are recorded.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "gabbro/engine/session.h"
#include "src/base/error.h"
#include "src/engine/random_model.h"
#include "src/formats/file_type.h"
#include "src/models/llm/blueprint.h"
#include "src/report/examined_device.h"

namespace gabbro::report {
namespace {

constexpr const char* kShape =
    "layers=2,embedding=512,heads=8,kv-heads=4,feed-forward=1024,vocabulary=4096,context=128";
constexpr int kTokens = 64;

std::vector<int32_t> some_tokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  uint32_t seed = 1;
  for (int32_t& token : tokens) {
    seed = seed * 1664525 + 1013904223;
    token = static_cast<int32_t>((seed >> 8) % static_cast<uint64_t>(vocabulary));
  }
  return tokens;
}

// Half of the tokens as a prompt, the others one by one: [kTokens, V].
std::vector<float> logits_of(const FileType& type, const std::string& device) {
  const auto engine = load_random_model(llm::parse_blueprint(kShape), type, {.device = device, .context = kTokens});
  Session session(engine);
  const std::vector<int32_t> tokens = some_tokens(kTokens, engine->facts().vocabulary);
  const std::span all(tokens);
  const auto prompt = session.append_all_logits(all.first(kTokens / 2));
  std::vector<float> logits(prompt.begin(), prompt.end());
  for (size_t i = kTokens / 2; i < kTokens; ++i) {
    const auto row = session.append(all.subspan(i, 1));
    logits.insert(logits.end(), row.begin(), row.end());
  }
  return logits;
}

struct Distance {
  double divergence = 0;  // KL, mean over the tokens
  int same_choice = 0;    // tokens whose most likely successor is the same
};

Distance distance(std::span<const float> wanted, std::span<const float> found) {
  Distance result;
  const size_t vocabulary = wanted.size() / kTokens;
  for (size_t token = 0; token < kTokens; ++token) {
    const auto p = wanted.subspan(token * vocabulary, vocabulary), q = found.subspan(token * vocabulary, vocabulary);
    const auto log_sum = [](std::span<const float> row) {
      const double most = std::ranges::max(row);
      double sum = 0;
      for (const float value : row) sum += std::exp(value - most);
      return most + std::log(sum);
    };
    const double p_sum = log_sum(p), q_sum = log_sum(q);
    for (size_t i = 0; i < vocabulary; ++i)
      result.divergence += std::exp(p[i] - p_sum) * ((p[i] - p_sum) - (q[i] - q_sum)) / kTokens;
    result.same_choice += std::ranges::max_element(p) - p.begin() == std::ranges::max_element(q) - q.begin();
  }
  return result;
}

// Hash of the first mebibyte and the size: enough to know a published file.
std::string file_hash(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(1 << 20, '\0');
  file.read(head.data(), std::ssize(head));
  head.resize(static_cast<size_t>(file.gcount()));
  std::error_code error;
  head += std::to_string(std::filesystem::file_size(path, error));
  return hash_of(head.data(), head.size());
}

void run_user_model(const PartOptions& options, const std::string& device, PartOutput& output) {
  output.line({{"model", "given"}, {"hash", file_hash(options.model)}, {"state", "loading"}});
  std::shared_ptr<Engine> engine;
  const double loading = seconds_of([&] { engine = Engine::load(options.model, {.device = device, .context = 512}); });
  const ModelFacts& facts = engine->facts();
  output.line({{"model", "given"},
               {"state", "loaded"},
               {"seconds", loading},
               {"bytes", facts.file_bytes},
               {"quantization", facts.quantization},
               {"architecture", facts.architecture}});
  Session session(engine);
  const std::vector<int32_t> prompt = some_tokens(256, facts.vocabulary);
  std::span<const float> logits;
  const double prefill = seconds_of([&] { logits = session.append(prompt); });
  const std::string hash = hash_of(logits.data(), logits.size_bytes());
  constexpr int kSteps = 64;
  const double decode = seconds_of([&] {
    for (int i = 0; i < kSteps; ++i) {
      const auto next = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
      logits = session.append({&next, 1});
    }
  });
  output.line({{"model", "given"},
               {"state", "done"},
               {"prompt_tokens_per_second", static_cast<double>(prompt.size()) / prefill},
               {"tokens_per_second", kSteps / decode},
               {"prompt_logits", hash},
               {"last_logits", hash_of(logits.data(), logits.size_bytes())}});
}

}  // namespace

void check_model(const PartOptions& options, PartOutput& output) {
  const Budget budget(options);
  const std::string device = open_examined_device(options)->facts().id;
  for (const char* name : {"f16", "q4_0"}) {
    if (!budget.below(0.3)) break;
    const FileType* type = find_file_type(name);
    if (type == nullptr) throw failed("no file type {}", name);
    std::vector<float> wanted, found, again;
    const double cpu = seconds_of([&] { wanted = logits_of(*type, "cpu"); });
    const double gpu = seconds_of([&] { found = logits_of(*type, device); });
    const double second = budget.below(0.4) ? seconds_of([&] { again = logits_of(*type, device); }) : 0;
    const Distance far = distance(wanted, found);
    output.line({{"model", "built-in"},
                 {"type", name},
                 {"tokens", kTokens},
                 {"logits", hash_of(found.data(), found.size() * sizeof(float))},
                 {"repeats", again.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(found == again)},
                 {"divergence", far.divergence},
                 {"same_choice", far.same_choice},
                 {"cpu_seconds", cpu},
                 {"seconds", gpu},
                 {"seconds_again", second}});
  }
  if (!options.model.empty() && budget.below(0.7)) run_user_model(options, device, output);
}

}  // namespace gabbro::report
