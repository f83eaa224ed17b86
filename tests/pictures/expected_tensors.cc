#include "tests/pictures/expected_tensors.h"

#include <cmath>
#include <cstring>

#include "gabbro/graph/eval.h"
#include "src/backend/registry.h"

namespace gabbro::pictures {

const std::shared_ptr<Device>& test_device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

std::vector<std::string> ExpectedTensors::names() const {
  std::vector<std::string> all;
  for (const safetensors::TensorInfo& tensor : file_.tensors()) all.push_back(tensor.name);
  return all;
}

std::vector<float> ExpectedTensors::values(const std::string& name) const {
  const safetensors::TensorInfo* const tensor = file_.tensor(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<float> values(tensor->data.size() / sizeof(float));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

std::vector<int32_t> ExpectedTensors::integers(const std::string& name) const {
  const std::vector<float> bits = values(name);
  std::vector<int32_t> values(bits.size());
  std::memcpy(values.data(), bits.data(), bits.size() * sizeof(float));
  return values;
}

Tensor ExpectedTensors::tensor(const std::string& name) const {
  return test_device()->upload(DType::f32, Shape(file_.tensor(name)->shape), values(name).data());
}

double relative_error(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) return HUGE_VAL;
  double length = 0, error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    length += static_cast<double>(expected[i]) * expected[i];
    error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
  }
  return std::sqrt(error / length);
}

void expect_close(const Tensor& actual, const std::vector<float>& expected, double tolerance, const std::string& what) {
  const std::vector<float> values = to_host<float>(actual);
  ASSERT_EQ(values.size(), expected.size()) << what;
  EXPECT_LE(relative_error(values, expected), tolerance) << what;
}

}  // namespace gabbro::pictures
