#include "src/server/routes/openai_common.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>

namespace gabbro::server {
namespace {

constexpr size_t kLongestSalt = 256;
constexpr double kMostSeconds = 10.0 * 365 * 24 * 3600;

KeepAlive duration_of(double seconds) {
  if (seconds < 0 || seconds > kMostSeconds) return kForever;
  return KeepAlive(static_cast<int64_t>(std::llround(seconds * 1000)));
}

// A duration as Go writes it: "1h30m", "300ms", "-1". Nothing where it is none.
std::optional<double> parse_go_duration(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    size_t digits = 0;
    while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.'))
      ++digits;
    if (digits == 0 || digits > 18) return std::nullopt;
    const double number = std::strtod(std::string(text.substr(0, digits)).c_str(), nullptr);
    text.remove_prefix(digits);
    constexpr std::pair<std::string_view, double> kUnits[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9},
                                                              {"h", 3600},  {"m", 60},    {"s", 1}};
    const auto unit = std::ranges::find_if(kUnits, [&](const auto& one) { return text.starts_with(one.first); });
    if (unit == std::end(kUnits)) {
      if (!text.empty() || total != 0) return std::nullopt;
      total = number;  // seconds
      break;
    }
    total += number * unit->second;
    text.remove_prefix(unit->first.size());
  }
  return is_negative ? -total : total;
}

}  // namespace

std::optional<KeepAlive> read_keep_alive(Fields& fields, const char* name) {
  const Json* const given = fields.find(name);
  if (given == nullptr) return std::nullopt;
  if (given->is_number()) return duration_of(given->get<double>());
  if (!given->is_string()) fields.refuse(name, fmt::format("expected a duration, got {}", kind_of(*given)));
  const auto seconds = parse_go_duration(given->get_ref<const std::string&>());
  if (!seconds)
    fields.refuse(name, fmt::format("'{}' is not a duration such as 5m", given->get_ref<const std::string&>()));
  return duration_of(*seconds);
}

OpenAiRequest read_openai_request(Fields& fields) {
  OpenAiRequest request;
  request.model = fields.text("model").value_or("");
  request.streams = fields.boolean_or("stream", false);
  request.choices = fields.integer("n", 1, kMostChoices).value_or(1);
  if (auto options = fields.object("stream_options")) {
    request.includes_usage = options->boolean_or("include_usage", false) && request.streams;
    options->boolean("include_obfuscation");
  }
  // vLLM's: the lower goes first.
  request.priority = static_cast<int>(-fields.integer("priority", -kHighestPriority, -kLowestPriority).value_or(0));
  request.keep_alive = read_keep_alive(fields, "keep_alive");
  request.cache_salt = fields.text("cache_salt").value_or("");
  if (request.cache_salt.size() > kLongestSalt)
    fields.refuse("cache_salt", fmt::format("is longer than {} bytes", kLongestSalt));
  return request;
}

void add_choices(AnswerRequest& answer, const std::vector<int32_t>& prompt, const GenerateOptions& options,
                 const OpenAiRequest& asked) {
  for (int64_t i = 0; i < asked.choices; ++i) {
    GenerationRequest request{
        .prompt = prompt, .options = options, .priority = asked.priority, .tree = asked.cache_salt};
    if (options.sampler.seed != 0) request.options.sampler.seed += static_cast<uint64_t>(i);
    answer.requests.push_back(std::move(request));
  }
  answer.choices_per_prompt = static_cast<size_t>(asked.choices);
}

std::string fingerprint_of(const Service& service, const LoadedModel& model) {
  const ModelFacts& facts = model.generator->facts();
  const size_t hash =
      std::hash<std::string>()(fmt::format("{}|{}|{}|{}|{}", service.options().version, facts.device_name, facts.name,
                                           facts.quantization, facts.weight_bytes));
  return fmt::format("fp_{:012x}", hash & 0xFFFFFFFFFFFF);
}

}  // namespace gabbro::server
