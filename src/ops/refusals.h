// For tests of what ops refuse: tensors of a device that computes nothing, and the messages that calls must give.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/graph/node.h"

namespace gabbro {

inline const std::shared_ptr<Device>& device() {
  static const std::shared_ptr<Device> opened = open_device("null");
  return opened;
}

inline Tensor leaf(const Shape& shape, DType dtype = DType::f32) { return device()->upload(dtype, shape, nullptr); }

struct Refusal {
  std::function<void()> call;
  const char* message;
};

inline void expect_refusals(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    try {
      refusal.call();
      ADD_FAILURE() << "not refused: " << refusal.message;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), refusal.message);
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << refusal.message;
    }
  }
}

}  // namespace gabbro
