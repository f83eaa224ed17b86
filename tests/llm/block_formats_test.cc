// A model in each block format gives the logits of the same weights in f32.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <vector>

#include "gabbro/engine/session.h"
#include "src/backend/registry.h"
#include "src/formats/quant/quant.h"
#include "src/formats/random_file.h"
#include "src/models/llm/model_plan.h"
#include "tests/rounding.h"

namespace gabbro {
namespace {

constexpr const char* kSmallShape =
    "layers=1,embedding=256,heads=4,kv-heads=2,feed-forward=256,vocabulary=67,context=128";

// The tensors of `file`, the block formats among them as f32.
Checkpoint dequantized(const Checkpoint& file) {
  gguf::Writer writer(gguf::kPageAlignment);
  for (const MetadataField& field : file.metadata().fields()) {
    if (field.key != "general.alignment") writer.add_value(field.key, *field.value.gguf());
  }
  std::deque<std::vector<float>> values;
  for (const CheckpointTensor& tensor : file.tensors()) {
    if (!is_quantized(tensor.dtype())) {
      writer.add_tensor(tensor.name, gguf::ggml_type_number(tensor.dtype()), tensor.shape, tensor.data);
      continue;
    }
    std::vector<float>& row = values.emplace_back(static_cast<size_t>(tensor.elements()));
    dequantize_row(tensor.dtype(), tensor.data.data(), row.data(), tensor.elements());
    writer.add_tensor(tensor.name, gguf::ggml_type_number(DType::f32), tensor.shape, std::as_bytes(std::span(row)));
  }
  return gguf::random_file("dequantized", writer, 1, 1);
}

// After a prompt, and after each token that follows.
std::vector<float> logits_of(const Checkpoint& file, const std::shared_ptr<Device>& device) {
  Session session(Engine::load(file, {.context = 128}, device));
  std::vector<int32_t> prompt(17);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 37 % 67);
  std::vector<float> all;
  const auto append = [&](std::vector<int32_t> ids) {
    const auto logits = session.append(ids);
    all.insert(all.end(), logits.begin(), logits.end());
  };
  append(prompt);
  append({11});
  append({5, 7, 9});
  return all;
}

std::vector<DType> block_formats() {
  std::vector<DType> all;
  for (int i = kFirstQuantized; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

class EveryBlockFormat : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Models, EveryBlockFormat, testing::ValuesIn(block_formats()),
                         [](const auto& instance) { return std::string(dtype_name(instance.param)); });

// Devices round activations to codes in each product.
TEST_P(EveryBlockFormat, GivesTheLogitsOfItsDequantizedWeights) {
  const auto device = open_device("auto", {.threads = 2});
  const FileType pure{.number = 0, .name = "pure", .base = GetParam()};
  const llm::Blueprint shape = llm::parse_blueprint(kSmallShape);
  const std::vector<float> expected = logits_of(dequantized(llm::random_checkpoint(shape, pure, 1)), device);
  const std::vector<float> actual = logits_of(llm::random_checkpoint(shape, pure, 1), device);
  ASSERT_EQ(actual.size(), expected.size());
  double errors = 0, squares = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    errors += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    squares += std::pow(static_cast<double>(expected[i]), 2);
  }
  ASSERT_GT(squares, 0);
  const double step = test::step_of_codes(device->host_accessible() ? test::kCpuLevels : test::kGpuLevels);
  EXPECT_LT(std::sqrt(errors / squares), test::kGrowth * test::rounding_deviation(test::products_of(1), step));
}

}  // namespace
}  // namespace gabbro
