// `bench llm`: prompt processing and generation, in tokens per second, and generation as a share of what the memory
// gives.
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/read_bandwidth.h"
#include "apps/cli/terminal.h"

namespace gabbro::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Options {
  CommonOptions common;
  std::string model;
  int prompt = 512;
  int generate = 128;
  int repetitions = 5;
  bool warmup = true;
  uint64_t seed = 1;
};

struct Result {
  std::string test;  // "pp512", "tg128"
  double median, least, most;
  std::optional<double> bytes_per_token;
};

// The tokens are random, as llama-bench has them: speed does not depend on what they say.
std::vector<int32_t> random_tokens(int count, int64_t vocabulary, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
  return tokens;
}

template <class Work>
Result measure(const std::string& test, int tokens, const Options& o, Work work) {
  if (o.warmup) work();
  std::vector<double> rates;
  for (int i = 0; i < o.repetitions; ++i) {
    const auto start = Clock::now();
    work();
    rates.push_back(tokens / std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(rates.begin(), rates.end());
  const size_t middle = rates.size() / 2;
  const double median = rates.size() % 2 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  return {test, median, rates.front(), rates.back(), {}};
}

std::vector<Result> measure_all(const std::shared_ptr<Engine>& engine, const Options& o) {
  const ModelFacts& facts = engine->facts();
  const Cancellable cancellable;
  Session session(engine);
  std::vector<Result> results;
  if (o.prompt > 0) {
    const auto tokens = random_tokens(o.prompt, facts.vocabulary, o.seed);
    results.push_back(measure(fmt::format("pp{}", o.prompt), o.prompt, o, [&] {
      session.truncate(0);
      session.append(tokens, cancellable.flag());
    }));
  }
  if (o.generate > 0) {
    const auto tokens = random_tokens(o.generate, facts.vocabulary, o.seed + 1);
    results.push_back(measure(fmt::format("tg{}", o.generate), o.generate, o, [&] {
      session.truncate(0);
      for (const int32_t& token : tokens) session.append({&token, 1}, cancellable.flag());
    }));
    // All weights once, and on average half of the keys and values that the test writes.
    results.back().bytes_per_token =
        static_cast<double>(facts.bytes_per_token) + 0.5 * o.generate * static_cast<double>(facts.kv_bytes_per_token);
  }
  return results;
}

Json document(const std::vector<Result>& results, const ModelFacts& facts, double bandwidth) {
  Json rows = Json::array();
  for (const Result& r : results) {
    Json row = {{"model", facts.name},
                {"quantisation", facts.quantisation},
                {"device", facts.device_id},
                {"threads", facts.threads},
                {"test", r.test},
                {"tokens_per_second", {{"median", r.median}, {"min", r.least}, {"max", r.most}}},
                {"bytes_per_token", nullptr},
                {"bandwidth_share", nullptr}};
    if (r.bytes_per_token) {
      row["bytes_per_token"] = *r.bytes_per_token;
      if (bandwidth > 0) row["bandwidth_share"] = *r.bytes_per_token * r.median / bandwidth;
    }
    rows.push_back(std::move(row));
  }
  return {{"results", rows}, {"read_bandwidth", bandwidth > 0 ? Json(bandwidth) : Json(nullptr)}};
}

std::string table(const std::vector<Result>& results, const ModelFacts& facts, double bandwidth) {
  std::string out =
      fmt::format("{} {} on {} ({}), {} threads\n\n{:<8} {:>12} {:>12} {:>12} {:>12} {:>10}\n", printable(facts.name),
                  facts.quantisation, facts.device_id, printable(facts.device_name), facts.threads, "test",
                  "median t/s", "min", "max", "GB/s", "of memory");
  for (const Result& r : results) {
    out += fmt::format("{:<8} {:>12.1f} {:>12.1f} {:>12.1f}", r.test, r.median, r.least, r.most);
    if (r.bytes_per_token) {
      const double rate = *r.bytes_per_token * r.median;
      out += fmt::format(" {:>12.1f}", rate / 1e9);
      if (bandwidth > 0) out += fmt::format(" {:>8.0f} %", 100 * rate / bandwidth);
    }
    out += "\n";
  }
  if (bandwidth > 0) out += fmt::format("\nmemory read by {} threads: {:.1f} GB/s\n", facts.threads, bandwidth / 1e9);
  return out;
}

int run(const Options& o) {
  const auto engine = load_engine(o.model, o.common, std::max({o.prompt, o.generate, 1}));
  const ModelFacts& facts = engine->facts();
  const auto results = measure_all(engine, o);
  const double bandwidth = facts.device_id == "cpu" ? measure_read_bandwidth(facts.threads) : 0;
  if (o.common.json) {
    print_json(document(results, facts, bandwidth));
  } else {
    print(table(results, facts, bandwidth));
  }
  return 0;
}

}  // namespace

void add_bench(CLI::App& root, Actions& actions) {
  CLI::App* bench = root.add_subcommand("bench", "Measure speed");
  bench->require_subcommand(1);
  CLI::App* app = bench->add_subcommand("llm", "Measure prompt processing and generation of a language model");
  const auto o = std::make_shared<Options>();
  add_model(*app, o->model);
  add_number(*app, "-p,--prompt", o->prompt, "Tokens of the prompt; 0: leave this test out")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_number(*app, "-n,--generate", o->generate, "Tokens to generate; 0: leave this test out")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  add_number(*app, "-r,--repetitions", o->repetitions, "How often each test is measured")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app->add_flag("--warmup,!--no-warmup", o->warmup, "Run each test once before it is measured (the default)");
  add_number(*app, "--seed", o->seed, "Seed of the random tokens");
  add_device_options(*app, o->common);
  add_output_options(*app, o->common);
  actions[app] = [o] { return run(*o); };
}

}  // namespace gabbro::cli
