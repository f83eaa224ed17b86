// Figures of measurements of `bench serve`: times, percentiles, throughput.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/cli/serve_measure.h"

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

double offset(const Measured& measured, const ChatTimes& request) {
  return std::chrono::duration<double>(request.sent - measured.start).count();
}

double time_per_token(const ChatTimes& request) {
  return 1e3 * (request.pieces.back() - request.pieces.front()) / static_cast<double>(request.answer_tokens - 1);
}

template <class Values>  // of one request, into the list
std::vector<double> collect(const Measured& measured, Values values) {
  std::vector<double> all;
  for (const ChatTimes& request : measured.requests) {
    if (request.is_whole()) values(request, all);
  }
  std::ranges::sort(all);
  return all;
}

Json statistics(const std::vector<double>& sorted) {
  if (sorted.empty()) return nullptr;
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {{"mean", sum / static_cast<double>(sorted.size())},
          {"p50", percentile(sorted, 50)},
          {"p95", percentile(sorted, 95)},
          {"p99", percentile(sorted, 99)},
          {"max", sorted.back()}};
}

Json request_row(const Measured& measured, const ChatTimes& request) {
  Json row = {{"sent", offset(measured, request)}, {"seconds", request.end}};
  if (!request.is_whole()) {
    row["error"] = request.error;
    return row;
  }
  row["pieces"] = request.pieces;
  row["prompt_tokens"] = request.prompt_tokens;
  row["cached_tokens"] = request.cached_tokens;
  row["answer_tokens"] = request.answer_tokens;
  return row;
}

}  // namespace

double percentile(const std::vector<double>& sorted, double percent) {
  const double at = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<double> first_token_times(const Measured& measured) {
  return collect(measured, [](const ChatTimes& request, auto& all) { all.push_back(1e3 * request.pieces.front()); });
}

std::vector<double> piece_gaps(const Measured& measured) {
  return collect(measured, [](const ChatTimes& request, auto& all) {
    for (size_t i = 1; i < request.pieces.size(); ++i) all.push_back(1e3 * (request.pieces[i] - request.pieces[i - 1]));
  });
}

std::vector<double> times_per_token(const Measured& measured) {
  return collect(measured, [](const ChatTimes& request, auto& all) {
    if (request.answer_tokens > 1) all.push_back(time_per_token(request));
  });
}

std::vector<double> tokens_over_time(const Measured& measured, int count) {
  std::vector<double> rates(static_cast<size_t>(count), 0.0);
  const double width = measured.seconds / count;
  for (const ChatTimes& request : measured.requests) {
    if (!request.is_whole()) continue;
    const double tokens = static_cast<double>(request.answer_tokens) / static_cast<double>(request.pieces.size());
    for (const double piece : request.pieces) {
      const double at = (offset(measured, request) + piece) / width;
      if (at < count) rates[static_cast<size_t>(at)] += tokens / width;
    }
  }
  return rates;
}

Json measured_json(const Measured& measured, const ServeGoals& goals, bool detail) {
  int64_t whole = 0, good = 0, prompt_tokens = 0, cached_tokens = 0, answer_tokens = 0;
  bool counted_pieces = false;
  std::map<std::string, int64_t> errors;
  std::vector<double> ends;
  for (const ChatTimes& request : measured.requests) {
    if (!request.is_whole()) {
      ++errors[request.error];
      continue;
    }
    ++whole;
    prompt_tokens += request.prompt_tokens;
    cached_tokens += request.cached_tokens;
    answer_tokens += request.answer_tokens;
    counted_pieces |= request.counted_pieces;
    ends.push_back(1e3 * request.end);
    const bool is_quick = 1e3 * request.pieces.front() <= goals.ttft_ms;
    if (is_quick && (request.answer_tokens < 2 || time_per_token(request) <= goals.tpot_ms)) ++good;
  }
  std::ranges::sort(ends);
  // Tokens that came within the time of measuring; a request that ends later counts with those only.
  const double output_rate = tokens_over_time(measured, 1).front();
  const double share = answer_tokens > 0 ? output_rate * measured.seconds / static_cast<double>(answer_tokens) : 0;
  const double request_rate = share * static_cast<double>(whole) / measured.seconds;
  Json point = measured.point.streams > 0 ? Json{{"loop", "closed"}, {"streams", measured.point.streams}}
                                          : Json{{"loop", "open"}, {"rate", measured.point.rate}};
  point.update(
      {{"seconds", measured.seconds},
       {"requests", measured.requests.size()},
       {"answered", whole},
       {"errors", errors},
       {"requests_per_second", request_rate},
       {"goodput", request_rate * static_cast<double>(good) / static_cast<double>(std::max<int64_t>(1, whole))},
       {"output_tokens_per_second", output_rate},
       {"total_tokens_per_second", output_rate + share * static_cast<double>(prompt_tokens) / measured.seconds},
       {"prompt_tokens", prompt_tokens},
       {"cached_tokens", cached_tokens},
       {"answer_tokens", answer_tokens},
       {"tokens_counted_by", counted_pieces ? "pieces" : "usage"},
       {"ttft_ms", statistics(first_token_times(measured))},
       {"itl_ms", statistics(piece_gaps(measured))},
       {"tpot_ms", statistics(times_per_token(measured))},
       {"latency_ms", statistics(ends)},
       {"client_cpu", measured.cpu_seconds / measured.seconds}});
  if (detail) {
    point["detail"] = Json::array();
    for (const ChatTimes& request : measured.requests) point["detail"].push_back(request_row(measured, request));
  }
  return point;
}

}  // namespace gabbro::cli
