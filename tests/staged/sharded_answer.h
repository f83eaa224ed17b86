// The greedy answer of a model, on one device and on several, whose sums have another order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gabbro/engine/session.h"

namespace gabbro::shards_test {

// The logits of a prompt and of the most likely tokens after it.
struct Answer {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> logits;  // of each
};

inline Answer greedy(const std::shared_ptr<Engine>& engine, std::vector<int32_t> prompt, int count) {
  Session session(engine);
  Answer answer;
  for (int i = 0; i < count; ++i) {
    const std::span<const float> logits = session.append(prompt);
    answer.logits.emplace_back(logits.begin(), logits.end());
    prompt = {static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin())};
    answer.tokens.push_back(prompt.front());
  }
  return answer;
}

// Tokens are equal as long as the margin of the best one exceeds the difference of the logits, whose length is at most
// `tolerance` times that of the logits. Returns how many tokens were compared.
inline size_t expect_same(const Answer& found, const Answer& expected, double tolerance, const std::string& what) {
  for (size_t i = 0; i < expected.tokens.size(); ++i) {
    std::vector<float> logits = expected.logits[i];
    double difference = 0, square = 0, length = 0;
    for (size_t j = 0; j < logits.size(); ++j) {
      const double one = std::fabs(static_cast<double>(found.logits[i][j]) - logits[j]);
      difference = std::max(difference, one);
      square += one * one;
      length += static_cast<double>(logits[j]) * logits[j];
    }
    EXPECT_LE(std::sqrt(square), tolerance * std::sqrt(length)) << what << ", token " << i;
    std::ranges::partial_sort(logits, logits.begin() + 2, std::greater());
    if (logits[0] - logits[1] <= 2 * difference) return i;
    EXPECT_EQ(found.tokens[i], expected.tokens[i]) << what << ", token " << i;
  }
  return expected.tokens.size();
}

}  // namespace gabbro::shards_test
