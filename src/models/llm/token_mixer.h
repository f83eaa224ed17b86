// The part of a decoder's layer that mixes tokens: attention over keys and values or over latents, or a recurrence.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/models/llm/step.h"
#include "src/models/weights/weight_source.h"

namespace gabbro::llm {

struct MixerStep {
  const Step& step;
  const nn::KvCache& cache;
  size_t layer;        // its number in the cache
  const Tensor& rows;  // i32 [R]: the tokens whose results are wanted; undefined: all

  // The tokens' places in the layer's pages; of Step::copies, too.
  TokenPositions places() const { return step.places_in(cache.group(layer)); }
  TokenPositions copies() const { return step.copies_in(cache.group(layer)); }
};

class TokenMixer {
 public:
  virtual ~TokenMixer() = default;

  virtual nn::CacheLayer cache() const = 0;
  virtual bool takes_copies() const { return false; }  // Step::copies
  // h [T, C], normalized, -> [R, C], what is added to the stream. Takes all tokens into the cache.
  virtual Tensor operator()(const Tensor& h, const MixerStep& at) const = 0;
};

struct Rope {
  RopeOptions options;
  Tensor inverse_frequencies;  // [R/2]
};

// The parts that the mixer of a layer is made of.
struct MixerPlace {
  WeightSource& weights;
  const std::string& prefix;  // of its tensors: "blk.3."
  int64_t layer;
  const Rope& rope;  // of the decoder's configuration
};
// Null: self-attention.
using MakeMixer = std::function<std::unique_ptr<TokenMixer>(const MixerPlace& at)>;

}  // namespace gabbro::llm
