#include "src/server/metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace gabbro::server {
namespace {

constexpr size_t kMostUnknownNames = 100, kLongestName = 40;

std::string escaped(std::string_view label) {
  std::string result;
  for (const char c : label) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

void head(std::string& out, const char* name, const char* type, const char* help) {
  out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

void Metrics::count_request(const std::string& route, const std::string& method, int status, double seconds) {
  const std::string labels = fmt::format("handler=\"{}\",method=\"{}\",status=\"{}\"", route, escaped(method), status);
  const std::lock_guard lock(mutex_);
  Requests& requests = requests_[labels];
  ++requests.count;
  requests.seconds += seconds;
}

void Metrics::count_answer(const std::string& model, const AnswerTotals& totals) {
  const std::lock_guard lock(mutex_);
  Model& counts = models_[model];
  ++counts.answers;
  counts.prompt_tokens += static_cast<uint64_t>(totals.prompt_tokens);
  counts.cached_tokens += static_cast<uint64_t>(totals.cached_tokens);
  counts.generated_tokens += static_cast<uint64_t>(totals.generated_tokens);
  counts.prefill_seconds += totals.prefill_seconds;
  counts.decode_seconds += totals.decode_seconds;
}

bool Metrics::count_unknown_field(const std::string& name) {
  const bool is_plain = name.size() <= kLongestName && std::ranges::all_of(name, [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
                        });
  const std::lock_guard lock(mutex_);
  const bool is_known = unknown_fields_.contains(name);
  const bool counts_alone = is_plain && (is_known || unknown_fields_.size() < kMostUnknownNames);
  return ++unknown_fields_[counts_alone ? name : "(others)"] == 1 && counts_alone;
}

std::string Metrics::text(const std::vector<ModelRegistry::Status>& models, size_t connections) const {
  std::string out;
  const std::lock_guard lock(mutex_);
  head(out, "gabbro_http_requests_total", "counter", "Answered requests.");
  for (const auto& [labels, requests] : requests_)
    out += fmt::format("gabbro_http_requests_total{{{}}} {}\n", labels, requests.count);
  head(out, "gabbro_http_request_seconds_total", "counter", "Time of answered requests.");
  for (const auto& [labels, requests] : requests_)
    out += fmt::format("gabbro_http_request_seconds_total{{{}}} {:.6f}\n", labels, requests.seconds);
  head(out, "gabbro_connections", "gauge", "Open connections.");
  out += fmt::format("gabbro_connections {}\n", connections);
  const auto per_model = [&](const char* name, const char* help, auto value) {
    head(out, name, "counter", help);
    for (const auto& [model, counts] : models_)
      out += fmt::format("{}{{model=\"{}\"}} {}\n", name, escaped(model), value(counts));
  };
  per_model("gabbro_answers_total", "Answers that are whole.", [](const Model& m) { return m.answers; });
  per_model("gabbro_prompt_tokens_total", "Tokens of prompts.", [](const Model& m) { return m.prompt_tokens; });
  per_model("gabbro_cached_tokens_total", "Of these, tokens that were cached.",
            [](const Model& m) { return m.cached_tokens; });
  per_model("gabbro_generated_tokens_total", "Generated tokens.", [](const Model& m) { return m.generated_tokens; });
  per_model("gabbro_prompt_seconds_total", "Time of prompts.", [](const Model& m) { return m.prefill_seconds; });
  per_model("gabbro_generation_seconds_total", "Time of generation.", [](const Model& m) { return m.decode_seconds; });
  const auto per_loaded = [&](const char* name, const char* help, auto value) {
    head(out, name, "gauge", help);
    for (const ModelRegistry::Status& status : models)
      out += fmt::format("{}{{model=\"{}\"}} {}\n", name, escaped(status.entry.id), value(status));
  };
  per_loaded("gabbro_model_bytes", "Memory of loaded models.", [](const auto& s) { return s.bytes; });
  per_loaded("gabbro_requests_running", "Requests that are computed.", [](const auto& s) { return s.running; });
  per_loaded("gabbro_requests_waiting", "Requests that wait.", [](const auto& s) { return s.waiting; });
  head(out, "gabbro_unknown_fields_total", "counter", "Fields of requests that the server does not know.");
  for (const auto& [name, count] : unknown_fields_)
    out += fmt::format("gabbro_unknown_fields_total{{field=\"{}\"}} {}\n", name, count);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  head(out, "process_cpu_seconds_total", "counter", "Processor time of the server's process.");
  out += fmt::format("process_cpu_seconds_total {:.3f}\n", seconds(usage.ru_utime) + seconds(usage.ru_stime));
  head(out, "process_max_resident_memory_bytes", "gauge", "Largest resident memory of the server's process.");
  out += fmt::format("process_max_resident_memory_bytes {}\n", static_cast<uint64_t>(usage.ru_maxrss) * 1024);
  return out;
}

}  // namespace gabbro::server
