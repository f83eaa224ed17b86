// Attention over a paged cache that the call fills, as the fixtures of `attention` ask for it.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "src/graph/node.h"

namespace gabbro::cases {

// x: q, and the keys and values of all tokens; q's are the last. They are written in two steps, to pages in
// shuffled order. `dtype`, of the cache: f16 or i8. Attributes: page, window, softcap.
Tensor cached_attention(const std::vector<Tensor>& x, const nlohmann::json& attributes, DType dtype);

}  // namespace gabbro::cases
