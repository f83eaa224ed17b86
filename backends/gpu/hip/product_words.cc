#include "backends/gpu/hip/product_words.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

namespace gabbro::gpu::hip {
namespace {

constexpr size_t kWords = 16;

}  // namespace

std::vector<std::string> words_of(const api::GemmShape& s) {
  std::vector<std::string> words;
  for (const int64_t number :
       {static_cast<int64_t>(s.dtype), static_cast<int64_t>(s.result), s.rows, s.tokens, s.depth, s.batches, s.w.step,
        s.w.batch_step, int64_t{s.w.transposed}, s.x.step, s.x.batch_step, int64_t{s.x.transposed}, s.y_step,
        int64_t{s.bias}, static_cast<int64_t>(s.activation)}) {
    words.push_back(fmt::format("{}", number));
  }
  words.push_back(fmt::format("{}", s.alpha));  // the shortest text that reads back as the same number
  return words;
}

std::optional<api::GemmShape> shape_of_words(std::span<const char* const> words) {
  if (words.size() != kWords) return std::nullopt;
  int64_t n[kWords - 1] = {};
  float alpha = 0;
  for (size_t i = 0; i < kWords; ++i) {
    const std::string_view word = words[i];
    const char* const end = word.data() + word.size();
    const auto [stop, error] =
        i + 1 < kWords ? std::from_chars(word.data(), end, n[i]) : std::from_chars(word.data(), end, alpha);
    if (error != std::errc() || stop != end) return std::nullopt;
  }
  return api::GemmShape{.dtype = static_cast<DType>(n[0]),
                        .result = static_cast<DType>(n[1]),
                        .rows = n[2],
                        .tokens = n[3],
                        .depth = n[4],
                        .batches = n[5],
                        .w = {.step = n[6], .batch_step = n[7], .transposed = n[8] != 0},
                        .x = {.step = n[9], .batch_step = n[10], .transposed = n[11] != 0},
                        .y_step = n[12],
                        .alpha = alpha,
                        .bias = n[13] != 0,
                        .activation = static_cast<api::Activation>(n[14])};
}

int64_t extent_of(const api::Factor& factor, int64_t lines, int64_t depth, int64_t batches) {
  const int64_t outer = factor.transposed ? depth : lines, inner = factor.transposed ? lines : depth;
  return (batches - 1) * factor.batch_step + (outer - 1) * factor.step + inner;
}

int64_t result_bytes(const api::GemmShape& shape) {
  return static_cast<int64_t>(
      dtype_bytes(shape.result, static_cast<size_t>(shape.batches * shape.tokens * shape.y_step)));
}

}  // namespace gabbro::gpu::hip
