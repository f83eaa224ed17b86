// The numbers of tests/data/pictures (tests/reference/make_picture_fixtures.py).
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gabbro/tensor/tensor.h"
#include "src/backend/device.h"
#include "src/formats/hugging_face/safetensors.h"

namespace gabbro::pictures {

inline std::string picture_folder(const std::string& name) { return GABBRO_SOURCE_DIR "/tests/data/pictures/" + name; }

const std::shared_ptr<Device>& test_device();

class ExpectedTensors {
 public:
  explicit ExpectedTensors(const std::string& name) : file_(picture_folder(name) + "/expected.safetensors") {}

  bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }
  std::vector<std::string> names() const;
  std::vector<float> values(const std::string& name) const;
  std::vector<int32_t> integers(const std::string& name) const;
  Tensor tensor(const std::string& name) const;  // on the test's device

 private:
  safetensors::File file_;
};

// The length of the difference relative to that of what is expected.
double relative_error(std::span<const float> actual, std::span<const float> expected);
void expect_close(const Tensor& actual, const std::vector<float>& expected, double tolerance, const std::string& what);

}  // namespace gabbro::pictures
