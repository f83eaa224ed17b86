// The tokens that may still be chosen, and the operations that sort them and apply softmax. Ties go to the lower id
// everywhere, so that a result never depends on how a selection happened to run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gabbro::sampling {

struct Candidate {
  int32_t id;
  float logit;
  float probability;  // set by softmax()
};

struct Candidates {
  std::vector<Candidate> items;
  bool sorted = false;  // by falling logit

  // Fills `items` with the `count` largest of `logits`, sorted; 0 or more than there are: all, by id. NaN and -inf are
  // left out; +inf becomes the largest finite number.
  void assign_top(std::span<const float> logits, int64_t count);

  // Puts the `count` largest first, in falling order.
  void sort_prefix(size_t count);

  void keep_first(size_t count) { items.resize(count); }
  float max_logit() const;

  // probability = exp(logit - max) / sum, over `items`.
  void softmax();
};

// The id of the largest logit, the lowest on ties; -1 where none is larger than -inf.
int32_t argmax(std::span<const float> logits);

}  // namespace gabbro::sampling
