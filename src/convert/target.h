// One tensor of the file that convert() writes, and the conversion of its rows. Private to convert.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/models/weights/expert_tensors.h"
#include "src/models/weights/head_tensors.h"
#include "src/models/weights/merged_adapters.h"

namespace gabbro::llm {

// A tensor of the new file, and where its values come from.
struct ConvertTarget {
  std::string name;
  std::vector<int64_t> shape;  // row-major
  uint32_t type = 0;           // of GGML
  std::optional<DType> dtype;  // nothing: copied unchanged
  const CheckpointTensor* source = nullptr;
  TransformersLayout theirs;
  std::optional<ExpertTensors> experts;       // `source` is the first of them
  std::optional<HeadTensors> heads;           // likewise
  const std::vector<float>* table = nullptr;  // instead of a source
  MergedRows merged{};                        // what adapters add
  std::vector<float> importance{};            // [E, columns]; empty: all errors count alike
  uint64_t offset = 0, bytes = 0;             // in the new file
  struct State {
    std::once_flag prepared;
    std::atomic<int64_t> rows_left;
    std::atomic<uint64_t> digest = 0;  // the sum of its chunks' digests
  };
  std::unique_ptr<State> state{};  // while it is converted

  std::vector<const CheckpointTensor*> sources() const {
    if (experts) return {experts->tensors().begin(), experts->tensors().end()};
    return source != nullptr ? std::vector{source} : std::vector<const CheckpointTensor*>{};
  }

  const float* importance_of(int64_t row) const {
    if (importance.empty()) return nullptr;
    const int64_t rows_of_expert = rows() / (std::ssize(importance) / columns());
    return importance.data() + row / rows_of_expert * columns();
  }
  DType from() const { return heads ? heads->dtype() : source->dtype(); }  // of the rows that are converted
  int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  int64_t rows() const {
    int64_t count = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
    return count;
  }

  // Rows [first, first + count) in the new format. Throws bad_input, which names the model, the tensor and the value,
  // for values that are not finite, or too large for the format.
  void convert_rows(int64_t first, int64_t count, const std::string& model_path, std::vector<std::byte>& out) const;

 private:
  // The values of a row that is changed or encoded.
  void read_values(int64_t row, const std::byte* stored, std::vector<float>& values) const;
  void check_source(const std::byte* row, const std::string& model_path) const;
  [[noreturn]] void refuse(const std::string& model_path, int64_t row, int64_t column, float value) const;
  // A row in the source's format, in the file or gathered in `gathered`. A vector is one row.
  const std::byte* source_row(int64_t row, std::vector<std::byte>& gathered) const;
};

}  // namespace gabbro::llm
