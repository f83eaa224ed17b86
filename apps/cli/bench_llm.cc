// `bench llm`: prompt processing and generation, in tokens per second, and generation as a share of what the memory
// gives.
#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "apps/cli/commands.h"
#include "apps/cli/engine_loading.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/model_argument.h"
#include "apps/cli/read_bandwidth.h"
#include "apps/cli/split_options.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "gabbro/engine/sampler.h"
#include "src/base/error.h"
#include "src/engine/runner.h"
#include "src/models/llm/model_plan.h"

namespace gabbro::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct LlmBenchOptions {
  CommonOptions common;
  std::string model;
  std::string shape;  // instead of a model
  std::string type = "q4_k_m";
  std::string write;  // a file for the model of the shape
  int prompt = 512;
  int generate = 128;
  int depth = 0;  // tokens that are in the cache before each test
  std::string batch = "1";
  std::optional<std::string> kv_type;
  std::vector<int32_t> batches;  // numbers of sequences
  SamplerOptions sampler;        // of tests of several sequences
  int repetitions = 5;
  bool warmup = true;
  uint64_t seed = 1;
};

struct Result {
  std::string test;  // "pp512", "tg128 @ d8192"
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

// prepare() is not timed.
template <class Prepare, class Work>
Result measure(const std::string& test, int tokens, const LlmBenchOptions& o, Prepare prepare, Work work) {
  if (o.warmup) {
    prepare();
    work();
  }
  std::vector<double> rates;
  for (int i = 0; i < o.repetitions; ++i) {
    prepare();
    const auto start = Clock::now();
    work();
    rates.push_back(tokens / std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::sort(rates.begin(), rates.end());
  const size_t middle = rates.size() / 2;
  const double median = rates.size() % 2 ? rates[middle] : (rates[middle - 1] + rates[middle]) / 2;
  return {test, median, rates.front(), rates.back(), {}};
}

std::string test_name(const char* kind, int tokens, int depth) {
  return fmt::format("{}{}{}", kind, tokens, depth > 0 ? fmt::format(" @ d{}", depth) : "");
}

struct Samplers {
  std::deque<Sampler> samplers;
  std::vector<Sampler*> pointers;
};

// One sampler for each sequence, with its own seed.
Samplers make_samplers(size_t count, int64_t vocabulary, const LlmBenchOptions& o) {
  Samplers out;
  SamplerOptions options = o.sampler;
  for (size_t i = 0; i < count; ++i) {
    options.seed = o.seed + i;
    out.pointers.push_back(&out.samplers.emplace_back(options, vocabulary));
  }
  return out;
}

// Several sequences together: a prompt for each, then a token for each after its prompt. Rates are of all sequences.
std::vector<Result> measure_batch(const std::shared_ptr<Engine>& engine, int count, const LlmBenchOptions& o) {
  const ModelFacts& facts = engine->facts();
  const Cancelable cancelable;
  Runner runner(engine);
  std::deque<Sequence> sequences;
  for (int i = 0; i < count; ++i) sequences.emplace_back(engine);
  const auto before = random_tokens(o.depth, facts.vocabulary, o.seed + 2),
             prompt = random_tokens(o.prompt, facts.vocabulary, o.seed),
             first = random_tokens(1, facts.vocabulary, o.seed + 1);
  const auto fill = [&](const std::vector<int32_t>& tokens) {
    for (Sequence& sequence : sequences) {
      runner.append(sequence, tokens, runner.prompt_chunk(), Chunk::Rows::kLast, cancelable.flag(), [](auto) {});
    }
  };
  const auto cut = [&](int64_t length) {
    for (Sequence& sequence : sequences) {
      sequence.truncate(length);
      runner.restore(sequence, cancelable.flag());
    }
  };
  if (o.depth > 0) fill(before);
  std::vector<Result> results;
  const std::string suffix = fmt::format(" x{}", count);
  if (o.prompt > 0) {
    results.push_back(measure(
        test_name("pp", o.prompt, o.depth) + suffix, count * o.prompt, o, [&] { cut(o.depth); },
        [&] { fill(prompt); }));
  }
  if (o.generate > 0) {
    const auto generate = [&] {
      std::vector<int32_t> last(sequences.size(), first.front());
      std::vector<Chunk> chunks;
      auto [samplers, chosen_by] = make_samplers(sequences.size(), facts.vocabulary, o);
      for (size_t i = 0; i < last.size(); ++i) chunks.push_back({&sequences[i], std::span(last).subspan(i, 1)});
      for (int t = 1; t <= o.generate; ++t) {
        const auto found = runner.step_tokens(chunks, chosen_by, cancelable.flag(), t < o.generate);
        // Broken weights may give none.
        std::ranges::transform(found, last.begin(), [](int32_t id) { return std::max(id, 0); });
        for (size_t i = 0; i < last.size(); ++i) samplers[i].accept(last[i]);
      }
    };
    results.push_back(measure(
        test_name("tg", o.generate, o.depth + o.prompt) + suffix, count * o.generate, o,
        [&] { cut(o.depth + o.prompt); }, generate));
  }
  return results;
}

std::vector<Result> measure_all(const std::shared_ptr<Engine>& engine, const LlmBenchOptions& o) {
  const ModelFacts& facts = engine->facts();
  const Cancelable cancelable;
  Runner runner(engine);
  Sequence sequence(engine);
  const auto append = [&](std::span<const int32_t> tokens) {
    runner.append(sequence, tokens, runner.prompt_chunk(), Chunk::Rows::kLast, cancelable.flag(), [](auto) {});
  };
  const auto cut = [&] {
    sequence.truncate(o.depth);
    runner.restore(sequence, cancelable.flag());
  };
  std::vector<Result> results;
  if (o.depth > 0) append(random_tokens(o.depth, facts.vocabulary, o.seed + 2));
  if (o.prompt > 0) {
    const auto tokens = random_tokens(o.prompt, facts.vocabulary, o.seed);
    results.push_back(measure(test_name("pp", o.prompt, o.depth), o.prompt, o, cut, [&] { append(tokens); }));
  }
  if (o.generate > 0) {
    const auto tokens = random_tokens(o.generate, facts.vocabulary, o.seed + 1);
    results.push_back(measure(test_name("tg", o.generate, o.depth), o.generate, o, cut, [&] {
      for (const int32_t& token : tokens) append({&token, 1});
    }));
    // All weights once, the keys and values of the depth, and on average half of those that the test writes.
    const auto read = [&](int64_t written) { return static_cast<double>(engine->kv_bytes_read(o.depth + written)); };
    results.back().bytes_per_token =
        static_cast<double>(facts.bytes_per_token) + (read(o.generate / 2) + read((o.generate + 1) / 2)) / 2;
  }
  return results;
}

bool is_cpu(const ModelFacts& facts) { return facts.device_id == "cpu"; }

// The part about threads, for a CPU only: a GPU has compute units.
std::string thread_count(const ModelFacts& facts) {
  return is_cpu(facts) ? fmt::format(", {} threads", facts.threads) : "";
}

Json document(const std::vector<Result>& results, const Engine& engine, const LlmBenchOptions& o, double bandwidth) {
  const ModelFacts& facts = engine.facts();
  Json rows = Json::array();
  for (const Result& r : results) {
    Json row = {{"model", facts.name},
                {"quantisation", facts.quantization},
                {"device", facts.device_id},
                {"threads", is_cpu(facts) ? Json(facts.threads) : Json(nullptr)},
                {"test", r.test},
                {"depth", o.depth},
                {"tokens_per_second", {{"median", r.median}, {"min", r.least}, {"max", r.most}}},
                {"bytes_per_token", nullptr},
                {"bandwidth_share", nullptr}};
    if (r.bytes_per_token) {
      row["bytes_per_token"] = *r.bytes_per_token;
      if (bandwidth > 0) row["bandwidth_share"] = *r.bytes_per_token * r.median / bandwidth;
    }
    rows.push_back(std::move(row));
  }
  Json out = {{"results", rows},
              {"read_bandwidth", bandwidth > 0 ? Json(bandwidth) : Json(nullptr)},
              {"parameters", facts.parameters},
              {"weight_bytes", facts.weight_bytes},
              {"kv_type", dtype_name(facts.kv_type)},
              {"kv_bytes", facts.cache_bytes},
              {"temperature", o.sampler.temperature},
              {"memory_peak", nullptr}};
  if (const auto peak = engine.memory_peak()) out["memory_peak"] = *peak;
  if (facts.streaming.bytes_per_pass > 0) out["streaming"] = streaming_document(facts, engine.streaming_work());
  if (!o.shape.empty()) {
    out["shape"] = o.shape;
    out["type"] = facts.quantization;
  }
  return out;
}

std::string table(const std::vector<Result>& results, const Engine& engine, const LlmBenchOptions& o,
                  double bandwidth) {
  const ModelFacts& facts = engine.facts();
  std::string out = fmt::format("{} {}{} on {} ({}){}\n\n{:<16} {:>12} {:>12} {:>12} {:>12} {:>10}\n",
                                printable(facts.name), facts.quantization, o.shape.empty() ? "" : " of random weights",
                                facts.device_id, printable(facts.device_name), thread_count(facts), "test",
                                "median t/s", "min", "max", "GB/s", "of memory");
  for (const Result& r : results) {
    out += fmt::format("{:<16} {:>12.1f} {:>12.1f} {:>12.1f}", r.test, r.median, r.least, r.most);
    if (r.bytes_per_token) {
      const double rate = *r.bytes_per_token * r.median;
      out += fmt::format(" {:>12.1f}", rate / 1e9);
      if (bandwidth > 0) out += fmt::format(" {:>8.0f} %", 100 * rate / bandwidth);
    }
    out += "\n";
  }
  if (bandwidth > 0) out += fmt::format("\nmemory read by {} threads: {:.1f} GB/s\n", facts.threads, bandwidth / 1e9);
  out += describe_streaming(facts, engine.streaming_work());
  if (const auto peak = engine.memory_peak()) {
    const auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
    out += fmt::format("\nallocated on {} at most: {:.2f} GiB (weights {:.2f}, keys and values in {} {:.2f})\n",
                       facts.device_id, gib(*peak), gib(facts.weight_bytes), dtype_name(facts.kv_type),
                       gib(facts.cache_bytes));
  }
  return out;
}

std::shared_ptr<Engine> load(const LlmBenchOptions& o) {
  const int32_t sequences = std::ranges::max(o.batches);
  const int together = sequences > 1 ? o.prompt + o.generate : std::max(o.prompt, o.generate);
  const int context = o.depth + std::max(together, 1);
  if (o.shape.empty() && o.model.empty())
    throw Error(ErrorCode::kBadInput, "MODEL is missing", "--shape llama-8b does without one");
  if (!o.shape.empty() && !o.common.memory.empty())
    throw Error(ErrorCode::kBadInput, "--memory needs a file to stream from", "--write FILE makes one of the shape");
  const EngineNeeds needs = {.context = context, .kv_type = o.kv_type, .sequences = sequences};
  if (o.shape.empty()) return load_engine(o.model, o.common, needs);
  return load_random_engine(llm::parse_blueprint(o.shape), parse_type(o.type), o.common, needs);
}

int write_model(const LlmBenchOptions& o) {
  constexpr uint64_t kSeed = 1;
  const Checkpoint model = llm::random_checkpoint(llm::parse_blueprint(o.shape), parse_type(o.type), kSeed);
  const std::span<const std::byte> bytes = model.tensors().front().file->bytes();
  write_output(o.write, bytes);
  if (is_standard_output(o.write)) return 0;
  print(fmt::format("{}: {}\n", o.write, human_bytes(bytes.size())));
  return 0;
}

int run(LlmBenchOptions& o) {
  if (!o.write.empty()) return write_model(o);
  o.batches = parse_token_list(o.batch, "--batch");
  for (const int32_t count : o.batches) {
    if (count < 1 || count > 1024) throw bad_input("--batch: {} is not between 1 and 1024", count);
  }
  if (o.batches.empty()) throw bad_input("--batch: a number of sequences is missing");
  const auto engine = load(o);
  const ModelFacts& facts = engine->facts();
  std::vector<Result> results;
  for (const int32_t count : o.batches) {
    const auto more = count == 1 ? measure_all(engine, o) : measure_batch(engine, count, o);
    results.insert(results.end(), more.begin(), more.end());
  }
  const double bandwidth = is_cpu(facts) ? measure_read_bandwidth(facts.threads) : 0;
  if (o.common.json) {
    print_json(document(results, *engine, o, bandwidth));
  } else {
    print(table(results, *engine, o, bandwidth));
  }
  return 0;
}

}  // namespace

void add_bench(Command root) {
  Command bench = root.subcommand("bench", "Measure speed");
  bench.requires_subcommand();
  add_bench_ops(bench);
  add_bench_image(bench);
  add_bench_io(bench);
  add_bench_serve(bench);
  Command command = bench.subcommand("llm", "Measure prompt processing and generation of a language model");
  const auto o = std::make_shared<LlmBenchOptions>();
  Option model = add_model(command, o->model).optional();
  Option shape = add_shape(command, o->shape).excludes(model);
  add_type(command, o->type).needs(shape);
  command.option("--write", o->write, "Write the model of --shape to a file, and stop; -: to standard output")
      .placeholder("FILE")
      .file(FileUse::kStream)
      .needs(shape);
  command.number("-p,--prompt", o->prompt, "Tokens of the prompt; 0: leave this test out")
      .alias("--n-prompt")
      .range(0, 1 << 20);
  command.number("-n,--generate", o->generate, "Tokens to generate; 0: leave this test out")
      .alias("--n-gen")
      .range(0, 1 << 20);
  command.number("-d,--depth", o->depth, "Tokens that are in the cache before each test")
      .alias("--n-depth")
      .range(0, 1 << 24);
  command.option("-b,--batch", o->batch, "Numbers of sequences that are computed together, such as 1,8,32")
      .placeholder("LIST");
  o->sampler.temperature = 0;
  command
      .number("--temperature", o->sampler.temperature, "With several sequences: temperature, 0 takes the most likely")
      .range(0, 1000);
  command.number("--top-k", o->sampler.top_k, "With several sequences: draw from this many tokens; 0: from all");
  command.number("--top-p", o->sampler.top_p, "With several sequences: share of the probability to draw from")
      .range(0, 1);
  add_kv_type(command, o->kv_type);
  command.number("-r,--repetitions", o->repetitions, "How often each test is measured").range(1, 10000);
  command.flag("--warmup,!--no-warmup", o->warmup, "Run each test once before it is measured (the default)");
  command.number("--seed", o->seed, "Seed of the random tokens");
  add_device_options(command, o->common);
  add_memory_options(command, o->common);
  add_split_options(command, o->common.several);
  add_check_weights(command, o->common);
  add_quantize(command, o->common);
  add_lora(command, o->common);
  add_output_options(command, o->common);
  command.example("gabbro bench llm MODEL -p 512 -n 128");
  command.example("gabbro bench llm --shape llama-8b --type q4_k_m --device rocm:0");
  command.runs([o] { return run(*o); });
}

}  // namespace gabbro::cli
