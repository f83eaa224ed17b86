// `bench serve`: throughput and waiting times of a server that speaks OpenAI's dialect, measured at the client.
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/cli/bench_report.h"
#include "apps/cli/commands.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/options.h"
#include "apps/cli/serve_report.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/base/error.h"
#include "src/hub/text.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ServeBenchOptions {
  CommonOptions common;
  std::string url, model, key_file, load = "chat";
  std::vector<int> streams;
  std::vector<std::string> rates;
  std::optional<int> prompt, answer, top_k;
  std::optional<float> temperature, top_p;
  int seconds = 30, warmup = -1, timeout = 600;
  int64_t requests = 0;
  uint64_t seed = 1;
  float ttft = 500, tpot = 50;
  bool ends_itself = false, detail = false;
  std::optional<std::string> html;
};

// "2,4.5"; finite numbers above 0.
std::vector<double> parse_rates(const std::vector<std::string>& lists) {
  std::vector<double> rates;
  for (const std::string& list : lists) {
    for (size_t begin = 0; begin <= list.size();) {
      const size_t comma = std::min(list.find(',', begin), list.size());
      const std::string text = list.substr(begin, comma - begin);
      double rate = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
      if (error != std::errc() || end != text.data() + text.size() || !(rate > 0 && rate <= 1e4))
        throw bad_input("--rate: '{}' is not a number above 0, at most 10000", text);
      rates.push_back(rate);
      begin = comma + 1;
    }
  }
  return rates;
}

std::vector<LoopPoint> points_of(const ServeBenchOptions& o) {
  std::vector<LoopPoint> points;
  for (const int streams : o.streams) {
    if (streams < 1 || streams > 1024) throw bad_input("--streams: {} is out of range, expected 1 to 1024", streams);
    points.push_back({.streams = streams});
  }
  for (const double rate : parse_rates(o.rates)) points.push_back({.rate = rate});
  if (points.empty()) points = {{.streams = 1}, {.streams = 4}, {.streams = 16}};
  return points;
}

LoadShape shape_of(const ServeBenchOptions& o) {
  LoadShape shape = *std::ranges::find(load_shapes(), o.load, &LoadShape::name);
  // Lengths that are given hold for each request.
  if (o.prompt) {
    shape.prompt = *o.prompt;
    shape.prompt_spread = 0;
  }
  if (o.answer) {
    shape.answer = *o.answer;
    shape.answer_spread = 0;
  }
  return shape;
}

std::string key_of(const ServeBenchOptions& o) {
  if (!o.key_file.empty()) return std::string(hub::trim(read_input(o.key_file)));
  const char* const key = std::getenv("OPENAI_API_KEY");
  return key != nullptr ? key : "";
}

void choose_model(ServerAddress& server, const std::atomic<bool>& stop) {
  if (!server.model.empty()) return;
  const std::vector<std::string> names = server_models(server, stop);
  if (names.size() > 1) {
    std::string list;
    for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) list += (i > 0 ? ", " : "") + names[i];
    throw bad_input("the server has {} models; --model names one of them: {}", names.size(), list);
  }
  server.model = names.front();
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  gmtime_r(&now, &fields);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text;
}

std::string row(const Json& point) {
  const auto time = [&](const char* name, const char* which) {
    return point[name].is_object() ? point[name][which].get<double>() : 0.0;
  };
  const std::string load = point.contains("streams") ? fmt::format("{} streams", point["streams"].get<int>())
                                                     : fmt::format("{:.4g}/s", point["rate"].get<double>());
  return fmt::format("{:>12} {:>9} {:>7} {:>9.1f} {:>8.2f} {:>8.2f} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.1f} {:>8.1f}\n",
                     load, point["answered"].get<int64_t>(),
                     point["requests"].get<int64_t>() - point["answered"].get<int64_t>(),
                     point["output_tokens_per_second"].get<double>(), point["requests_per_second"].get<double>(),
                     point["goodput"].get<double>(), time("ttft_ms", "p50"), time("ttft_ms", "p95"),
                     time("ttft_ms", "p99"), time("itl_ms", "p95"), time("tpot_ms", "p50"));
}

std::string header() {
  return fmt::format("{:>12} {:>9} {:>7} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "load", "answered",
                     "errors", "tokens/s", "req/s", "goodput", "TTFT p50", "p95", "p99 ms", "ITL p95", "TPOT p50");
}

int measure_server(const ServeBenchOptions& o) {
  const std::vector<LoopPoint> points = points_of(o);
  const LoadShape shape = shape_of(o);
  if (o.html) require_report_path(*o.html);
  const bool page_only = o.html && is_standard_output(*o.html);
  ServerAddress server{.base = server_base(o.url), .key = key_of(o), .model = o.model};
  const Cancelable cancelable;
  const std::atomic<bool>& stop = *cancelable.flag();
  choose_model(server, stop);
  const Load load(shape, o.seed);
  MeasureOptions options{
      .seconds = static_cast<double>(o.seconds), .requests = o.requests, .warmup = o.warmup, .seed = o.seed};
  options.request.ends_itself = o.ends_itself;
  if (o.temperature) options.request.temperature = *o.temperature;
  if (o.top_p) options.request.top_p = *o.top_p;
  options.request.top_k = o.top_k;
  options.request.most_seconds = o.timeout;
  const ServeGoals goals{.ttft_ms = o.ttft, .tpot_ms = o.tpot};
  Json document = {{"command", "bench serve"},
                   {"version", GABBRO_VERSION},
                   {"time", time_now()},
                   {"url", server.base},
                   {"model", server.model},
                   {"load",
                    {{"name", shape.name},
                     {"prompt_words", shape.prompt},
                     {"answer_tokens", shape.answer},
                     {"shared_words", shape.shared}}},
                   {"seconds", o.seconds},
                   {"seed", o.seed},
                   {"goals", {{"ttft_ms", goals.ttft_ms}, {"tpot_ms", goals.tpot_ms}}},
                   {"points", Json::array()}};
  std::vector<Measured> measured;
  const bool prints_rows = !page_only && !o.common.json;
  if (prints_rows) print(header());
  for (size_t i = 0; i < points.size(); ++i) {
    if (o.warmup < 0) options.warmup = std::max(1, points[i].streams);
    measured.push_back(measure_serving(server, load, points[i], i + 1, options, stop));
    document["points"].push_back(measured_json(measured.back(), goals, o.detail));
    if (prints_rows) print(row(document["points"].back()));
  }
  if (o.common.json && !page_only) print_json(document);
  if (o.html) {
    const std::string page = serve_report(document, measured);
    write_output(*o.html, std::as_bytes(std::span(page)));
  }
  return 0;
}

}  // namespace

void add_bench_serve(Command bench) {
  Command command = bench.subcommand("serve", "Measure a server that speaks OpenAI's dialect");
  const auto o = std::make_shared<ServeBenchOptions>();
  command.option("URL", o->url, "Address of the server, such as http://127.0.0.1:11434");
  command.option("--model", o->model, "Model to ask").default_text("the only one");
  command.option("--key-file", o->key_file, "File with the API key")
      .placeholder("FILE")
      .default_text("OPENAI_API_KEY")
      .file(FileUse::kInput);
  command.numbers("--streams", o->streams, "Requests at a time, each followed by the next (closed loop)")
      .placeholder("LIST")
      .default_text("1,4,16");
  command.option("--rate", o->rates, "Requests per second that come by chance (open loop)").placeholder("LIST");
  command.option("--load", o->load, "Lengths of prompts and answers")
      .one_of({"chat", "rag", "agent", "code"})
      .placeholder("chat|rag|agent|code");
  command.number("--prompt", o->prompt, "Words of each prompt").range(1, 1 << 20);
  command.number("--answer", o->answer, "Tokens of each answer").range(1, 1 << 20);
  command.number("--seconds", o->seconds, "How long each load sends requests").range(1, 86'400);
  command.number("--requests", o->requests, "Requests of each load at most; 0: no limit").range(0, 1 << 24);
  command.number("--warmup", o->warmup, "Requests before, which are not counted; -1: one for each stream")
      .range(-1, 1024);
  command.number("--temperature", o->temperature, "Temperature of the requests");
  command.number("--top-p", o->top_p, "Share of the probability that tokens are drawn from");
  command.number("--top-k", o->top_k, "Number of the likeliest tokens that are drawn from");
  command.flag("--natural", o->ends_itself, "Let answers end where the model ends them");
  command.number("--timeout", o->timeout, "Seconds that a request may take").range(1, 86'400);
  command.number("--seed", o->seed, "Seed of prompts, lengths and arrivals");
  command.number("--ttft-goal", o->ttft, "Longest time to the first token of a good request, in ms");
  command.number("--tpot-goal", o->tpot, "Longest time per further token of a good request, in ms");
  command.flag("--detail", o->detail, "Add the times of each request to the JSON document");
  command
      .option("--html", o->html, "Write a page with plots to this file; -: to standard output, in place of the table")
      .placeholder("FILE")
      .file(FileUse::kStream);
  add_output_options(command, o->common);
  command.example("gabbro bench serve http://127.0.0.1:11434 --streams 1,4,16 --html report.html");
  command.example("gabbro bench serve http://127.0.0.1:11434 --model MODEL --rate 2,4,8 --load rag");
  command.runs([o] { return measure_server(*o); });
}

}  // namespace gabbro::cli
