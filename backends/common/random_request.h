// The operands of `random`, whatever the device.
#pragma once

#include "backends/common/request.h"

namespace gabbro::abi {

// key i32 [6] to `count` numbers.
struct RandomRequest {
  enum class Distribution { kBits, kUniform, kNormal, kIntegers };
  Distribution distribution = Distribution::kBits;
  int64_t count = 0;
  int64_t low = 0;     // of integers
  uint64_t range = 1;  // the same; at most 2^32
};
bool read_random_request(const KernelRequest& request, RandomRequest& random);

const char* distribution_name(RandomRequest::Distribution distribution);  // "bits", "uniform", "normal", "integers"

}  // namespace gabbro::abi
