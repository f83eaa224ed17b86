// Requests for `bench serve`: what is asked, and when it is sent. A seed gives the same requests each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gabbro::cli {

// Lengths of prompts and answers in tokens, log-normal around the medians; spread 0 is always the median.
struct LoadShape {
  std::string name;
  double prompt, prompt_spread;  // spread: the standard deviation of the logarithm
  double answer, answer_spread;
  int shared;  // words that all prompts begin with, as an agent's prompts do
};

// "chat", "rag", "agent", "code".
const std::vector<LoadShape>& load_shapes();

struct LoadRequest {
  std::string prompt;
  int answer_tokens;
};

class Load {
 public:
  Load(LoadShape shape, uint64_t seed) : shape_(std::move(shape)), seed_(seed) {}
  // Request `index` of the measurement `point`. No two of them have the same prompt. Prompts are counted in words,
  // which most vocabularies have a token for.
  LoadRequest request(uint64_t point, uint64_t index) const;

 private:
  LoadShape shape_;
  uint64_t seed_;
};

// Seconds from the start at which requests are sent: `rate` a second on average, with exponential gaps (a Poisson
// process), up to `seconds`.
std::vector<double> poisson_arrivals(double rate, double seconds, uint64_t seed);

}  // namespace gabbro::cli
