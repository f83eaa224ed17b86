// Mixtures whose experts are read when tokens choose them: the part of Mixture that waits for them.
#include <algorithm>
#include <bit>

#include "gabbro/graph/eval.h"
#include "src/backend/device.h"
#include "src/models/llm/mixture.h"

namespace gabbro::llm {
namespace {

Tensor indices(const Tensor& x, const std::vector<int32_t>& values, const Shape& shape) {
  return x.device()->upload(DType::i32, shape, values.data());
}

// Each once.
std::vector<int32_t> experts_in(std::vector<int32_t> ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());  // clang 14 does not compile that of std::ranges
  return ids;
}

}  // namespace

void Mixture::expect(const Tensor& ids) const { slots_->expect(experts_in(to_host<int32_t>(ids))); }

// Experts run in rounds where there are fewer slots than experts that the tokens chose: each with the pairs of a token
// and an expert of as many experts as there are slots.
Tensor Mixture::run_by_need(const Tensor& h, const Choice& all) const {
  const Tensor values[] = {h, all.ids, all.weights};
  eval(values, slots_->cancel());
  const auto ids = to_host<int32_t>(all.ids);
  std::vector<int32_t> wanted = experts_in(ids);
  std::vector<Tensor> rounds;               // [P, C] each
  std::vector<int32_t> row_of(ids.size());  // of each pair, in all rounds
  int32_t rows = 0;
  while (!wanted.empty()) {
    const std::vector<int32_t> slots = slots_->bring(wanted);
    std::vector<int32_t> slot_of(static_cast<size_t>(experts_), -1), later, pairs, at;
    for (size_t i = 0; i < wanted.size(); ++i) {
      slot_of[static_cast<size_t>(wanted[i])] = slots[i];
      if (slots[i] < 0) later.push_back(wanted[i]);
    }
    for (size_t pair = 0; pair < ids.size(); ++pair) {
      const int32_t slot = slot_of[static_cast<size_t>(ids[pair])];
      if (slot < 0) continue;
      row_of[pair] = rows + static_cast<int32_t>(pairs.size());
      pairs.push_back(static_cast<int32_t>(pair));
      at.push_back(slot);
    }
    if (pairs.size() == ids.size())
      return run_experts(h, {all.ids, indices(h, at, all.ids.shape()), all.weights, slots_->count()});
    const size_t padded = std::bit_ceil(pairs.size());  // few lengths, so that rounds share plans
    pairs.resize(padded, pairs.back());
    at.resize(padded, at.back());
    rows += static_cast<int32_t>(padded);
    rounds.push_back(run_pairs(h, all, pairs, at));
    eval(std::span(&rounds.back(), 1), slots_->cancel());  // before the slots have other experts
    wanted = std::move(later);
  }
  const Tensor each = gather(concat(rounds, 0), indices(h, row_of, Shape{std::ssize(row_of)}));  // [T·U, C]
  return reshape(each, Shape{h.shape()[0], used_, each.shape()[1]});
}

// Pair p is token p / U and the expert all.ids[p / U, p % U], which is in slot `at`: [P, C].
Tensor Mixture::run_pairs(const Tensor& h, const Choice& all, const std::vector<int32_t>& pairs,
                          const std::vector<int32_t>& at) const {
  const int64_t every = all.ids.shape().elements(), count = std::ssize(pairs);
  std::vector<int32_t> tokens = pairs;
  for (int32_t& token : tokens) token /= static_cast<int32_t>(used_);
  const Tensor chosen = indices(h, pairs, Shape{count});
  const Choice some = {.ids = gather(reshape(all.ids, Shape{every, 1}), chosen),             // [P, 1]
                       .slots = indices(h, at, Shape{count, 1}),                             // [P, 1]
                       .weights = gather(reshape(all.weights, Shape{every, 1, 1}), chosen),  // [P, 1, 1]
                       .count = slots_->count()};
  const Tensor each = run_experts(gather(h, indices(h, tokens, Shape{count})), some);  // [P, 1, C]
  return reshape(each, Shape{count, each.shape()[2]});
}

}  // namespace gabbro::llm
