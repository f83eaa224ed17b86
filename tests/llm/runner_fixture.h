// Engines, prompts and rows of logits for tests of Runner.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "src/engine/runner.h"
#include "tests/llm/tiny_model.h"

namespace gabbro::test {

class RunnerTest : public testing::Test {
 protected:
  static std::shared_ptr<Engine> load(int64_t sequences, int64_t context = 0) {
    return Engine::load(tiny_llama().write("runner"), {.threads = 2, .context = context, .sequences = sequences});
  }

  static std::vector<int32_t> prompt(int64_t number, size_t length) {
    std::vector<int32_t> ids(length);
    for (size_t i = 0; i < length; ++i)
      ids[i] = static_cast<int32_t>((i * 7 + static_cast<size_t>(number) * 31 + 3) % TinyModel::kV);
    return ids;
  }

  static std::vector<std::vector<float>> rows_of(std::span<const float> logits) {
    std::vector<std::vector<float>> rows;
    for (size_t i = 0; i + TinyModel::kV <= logits.size(); i += TinyModel::kV)
      rows.emplace_back(logits.begin() + static_cast<std::ptrdiff_t>(i),
                        logits.begin() + static_cast<std::ptrdiff_t>(i + TinyModel::kV));
    return rows;
  }

  static int32_t best(std::span<const float> row) {
    return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
  }
};

// Greedy tokens after a prompt, in a session without others.
inline std::vector<int32_t> greedy(const std::shared_ptr<Engine>& engine, const std::vector<int32_t>& prompt,
                                   int count) {
  Session session(engine);
  std::vector<int32_t> tokens;
  std::span<const float> logits = session.append(prompt);
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    logits = session.append({&tokens.back(), 1});
  }
  return tokens;
}

}  // namespace gabbro::test
