// The rule by which kernels read indices along an axis, and the message about an index that is out of range.
#pragma once

#include <cstdint>
#include <string>

#include "backends/common/request.h"

namespace gabbro::abi {

// Valid indices are `least` to size - 1, and `ignored`.
struct IndexRule {
  static constexpr int64_t kNone = INT64_MIN;

  int64_t size = 0;         // of the axis
  int64_t least = 0;        // -size: negative indices count from the end; 0: labels, which do not
  int64_t ignored = kNone;  // an index that selects nothing
  std::string op;           // the function that was called, for messages
  int64_t axis = 0;         // its axis, for messages
};

// Reads the attributes `for` (text; without it the op's name), `axis`, `labels` (1: no negative ones) and `ignored`.
IndexRule read_index_rule(const KernelRequest& request, int64_t size);

// "[take] index 7 is outside axis 0 of size 3"
std::string bad_index_message(const IndexRule& rule, int64_t index);

// `resolve_index`: indices of an integer dtype -> their positions along an axis of `size`, i32 of the same shape.
// With attribute `repeats` R: indices [K] -> [R * K], where run r is for row r of R axes that follow each other.
// With a second input `outer` (i32, of the indices' shape): outer · size + position, the row of two axes in one.
struct ResolveRequest {
  int64_t count = 0;  // indices
  int64_t repeats = 1;
  int64_t size = 0;
  DType dtype = DType::i32;
  bool has_outer = false;
};
bool read_resolve_index(const KernelRequest& request, ResolveRequest& resolve);

}  // namespace gabbro::abi
