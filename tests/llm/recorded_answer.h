// The events of a request, kept for a test.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "src/engine/generation_loop.h"

namespace gabbro::test {

class RecordedAnswer final : public Channel {
 public:
  void started() override { ++starts; }
  void text(std::string_view piece) override { text_so_far += piece; }
  void scores(std::span<const TokenScore> scores) override {
    for (const TokenScore& score : scores) scored_tokens.push_back(score.token);
  }
  void finished(GenerateResult value) override {
    EXPECT_FALSE(ended());
    result = std::move(value);
  }
  void failed(const Error& why) override {
    EXPECT_FALSE(ended());
    error = why;
  }
  bool ended() const { return result || error; }

  int starts = 0;
  std::string text_so_far;
  std::vector<int32_t> scored_tokens{};
  std::optional<GenerateResult> result;
  std::optional<Error> error;
};

}  // namespace gabbro::test
