#include "src/ops/cases/attention.h"

#include <cmath>
#include <numeric>

#include "src/ops/cases/cases.h"
#include "src/ops/ops.h"

namespace gabbro::cases {

Tensor cached_attention(const std::vector<Tensor>& x, const nlohmann::json& a, DType dtype) {
  const Shape& kv = x[1].shape();
  const int64_t page = a.at("page");
  const int64_t pages = (kv[0] + page - 1) / page;
  const auto zeros = [&](DType type, const Shape& shape) {
    const std::vector<uint16_t> bytes(static_cast<size_t>(shape.elements()), 0);
    return device()->upload(type, shape, bytes.data());
  };
  KvLayer cache{.keys = zeros(dtype, Shape{pages + 1, kv[1], kv[2], page}),
                .values = zeros(dtype, Shape{pages + 1, kv[1], page, kv[2]})};
  if (dtype == DType::i8) {
    cache.key_scales = zeros(DType::f16, Shape{pages + 1, kv[1], kv[2] / 32, page});
    cache.value_scales = zeros(DType::f16, Shape{pages + 1, kv[1], page, kv[2] / 32});
  }
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(table.size() - i);
  const Tensor page_table = ints(Shape{1, pages}, table);
  const auto places = [&](int64_t start, int64_t count) {
    std::vector<int32_t> positions(static_cast<size_t>(count));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(start));
    const std::vector<int32_t> sequence(positions.size(), 0);
    return TokenPositions{
        .positions = ints(Shape{count}, positions), .sequence = ints(Shape{count}, sequence), .page_table = page_table};
  };
  const int64_t early = kv[0] / 3;
  for (const auto& [start, count] : {std::pair(int64_t{0}, early), std::pair(early, kv[0] - early)}) {
    cache = kv_write(cache, slice(x[1], 0, start, count), slice(x[2], 0, start, count), places(start, count));
  }
  const int64_t tokens = x[0].shape()[0];
  return attention(x[0], cache, places(kv[0] - tokens, tokens),
                   {.scale = 1 / std::sqrt(static_cast<float>(kv[2])),
                    .window = a.at("window"),
                    .softcap = a.at("softcap").get<float>()});
}

}  // namespace gabbro::cases
