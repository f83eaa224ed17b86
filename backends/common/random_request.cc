#include "backends/common/random_request.h"

namespace gabbro::abi {

bool read_random_request(const KernelRequest& request, RandomRequest& random) {
  if (!has_operands(request, 1, 1) || !has_shape(request.inputs[0], DType::i32, {6})) return false;
  const int64_t distribution = integer_attribute(request, "distribution", -1);
  if (distribution < 0 || distribution > 3) return false;
  random.distribution = static_cast<RandomRequest::Distribution>(distribution);
  const bool real = random.distribution == RandomRequest::Distribution::kUniform ||
                    random.distribution == RandomRequest::Distribution::kNormal;
  const TensorView& y = request.outputs[0];
  random.count = elements(y);
  random.low = integer_attribute(request, "low", 0);
  const int64_t high = integer_attribute(request, "high", random.low + 1);
  random.range = static_cast<uint64_t>(high - random.low);
  return is_plain(y, real ? DType::f32 : DType::i32) && is_contiguous(y) && high > random.low &&
         random.range <= uint64_t{1} << 32;
}

const char* distribution_name(RandomRequest::Distribution distribution) {
  constexpr const char* kNames[] = {"bits", "uniform", "normal", "integers"};
  return kNames[static_cast<int>(distribution)];
}

}  // namespace gabbro::abi
