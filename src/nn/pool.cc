#include "gabbro/nn/pool.h"

#include "src/base/error.h"

namespace gabbro::nn {

void AdaptiveAvgPool2d::set_size(std::vector<int64_t> size) {
  if (size.empty() || size.size() > 2) throw bad_input("[size] {} numbers: one or two are wanted", size.size());
  size_ = std::move(size);
}

}  // namespace gabbro::nn
