#include "apps/cli/serve_load.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace gabbro::cli {
namespace {

// Words that vocabularies of language models have a token for, with the space before them.
constexpr std::array kWords = {
    "time",    "people", "water",  "light", "house",   "world",   "school",   "story",   "point",    "city",   "group",
    "problem", "hand",   "place",  "case",  "week",    "company", "system",   "program", "question", "work",   "number",
    "night",   "area",   "book",   "eye",   "job",     "word",    "business", "issue",   "side",     "kind",   "head",
    "service", "friend", "father", "power", "hour",    "game",    "line",     "end",     "member",   "law",    "car",
    "name",    "team",   "minute", "idea",  "body",    "back",    "parent",   "face",    "level",    "office", "door",
    "health",  "person", "art",    "war",   "history", "party",   "result",   "change",  "morning"};

// Bounds on what a log-normal distribution draws: half a percent of its values are outside.
constexpr double kMostTimes = 8;

std::string words(std::mt19937_64& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text.append(i == 0 ? "" : " ").append(kWords[random() % kWords.size()]);
  return text;
}

// Box-Muller: std::normal_distribution differs between libraries.
double normal(std::mt19937_64& random) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 1) / 9007199254740993.0; };
  const double radius = std::sqrt(-2 * std::log(uniform()));
  return radius * std::cos(2 * 3.141592653589793 * uniform());
}

int length(std::mt19937_64& random, double median, double spread) {
  const double drawn = median * std::exp(spread * normal(random));
  return std::max(1, static_cast<int>(std::lround(std::clamp(drawn, median / kMostTimes, median * kMostTimes))));
}

std::mt19937_64 generator(uint64_t seed, uint64_t point, uint64_t index) {
  std::seed_seq mixed{seed, seed >> 32, point, index, index >> 32};
  return std::mt19937_64(mixed);
}

}  // namespace

const std::vector<LoadShape>& load_shapes() {
  static const std::vector<LoadShape> kShapes = {
      {.name = "chat", .prompt = 200, .prompt_spread = 0.8, .answer = 250, .answer_spread = 0.6, .shared = 0},
      {.name = "rag", .prompt = 4000, .prompt_spread = 0.3, .answer = 200, .answer_spread = 0.4, .shared = 0},
      {.name = "agent", .prompt = 1000, .prompt_spread = 0.8, .answer = 150, .answer_spread = 0.8, .shared = 12'000},
      {.name = "code", .prompt = 1000, .prompt_spread = 0.4, .answer = 30, .answer_spread = 0.5, .shared = 0}};
  return kShapes;
}

LoadRequest Load::request(uint64_t point, uint64_t index) const {
  std::mt19937_64 random = generator(seed_, point, index);
  const int prompt_words = length(random, shape_.prompt, shape_.prompt_spread);
  const int answer_tokens = length(random, shape_.answer, shape_.answer_spread);
  std::string prompt;
  if (shape_.shared > 0) {
    std::mt19937_64 shared = generator(seed_, 0, ~uint64_t{0});
    prompt = words(shared, shape_.shared) + "\n\n";
  }
  return {.prompt = prompt + words(random, prompt_words), .answer_tokens = answer_tokens};
}

std::vector<double> poisson_arrivals(double rate, double seconds, uint64_t seed) {
  std::mt19937_64 random = generator(seed, 1, 0);
  std::vector<double> times;
  for (double at = 0;;) {
    const double uniform = static_cast<double>(random() >> 11) / 9007199254740992.0;
    at -= std::log1p(-uniform) / rate;
    if (at >= seconds) return times;
    times.push_back(at);
  }
}

}  // namespace gabbro::cli
