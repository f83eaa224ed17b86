#include "src/formats/zero_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"

namespace gabbro {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// A file of tensors of f32 with one value each; `half`: the second half is zeros.
struct Given {
  std::string name;
  int64_t rows;
  float value;
  bool half = false;
};

ZeroTensors::Found found_in(const std::vector<Given>& tensors) {
  constexpr int64_t kColumns = 64;
  std::vector<std::vector<float>> values;
  gguf::Writer writer;
  writer.add_string("general.architecture", "llama");
  for (const Given& given : tensors) {
    auto& own = values.emplace_back(static_cast<size_t>(given.rows * kColumns), given.value);
    if (given.half) std::fill(own.begin() + std::ssize(own) / 2, own.end(), 0.0f);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::vector<int64_t> shape =
        tensors[i].rows == 1 ? std::vector{kColumns} : std::vector{tensors[i].rows, kColumns};
    writer.add_tensor(tensors[i].name, gguf::ggml_type_number(DType::f32), shape, std::as_bytes(std::span(values[i])));
  }
  std::string folder = testing::TempDir() + "zeros.XXXXXX";
  const std::string path = std::string(::mkdtemp(folder.data())) + "/m.gguf";
  writer.write(path);
  const Checkpoint checkpoint = Checkpoint::open(path);
  ZeroTensors zeros;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) zeros.add(tensor);
  std::filesystem::remove_all(folder);
  return zeros.find();
}

TEST(ZeroTensors, VectorsOfZerosAreUsual) {
  const auto found = found_in({{"w", 4, 1}, {"bias", 1, 0}, {"norm", 1, 0}, {"v", 4, 1}});
  EXPECT_THAT(found.holes, IsEmpty());
  EXPECT_THAT(found.single, IsEmpty());
}

TEST(ZeroTensors, AMatrixBetweenOthersMayBeMeantSo) {
  const auto found = found_in({{"a", 4, 1}, {"zero", 4, 0}, {"bias", 1, 0}, {"b", 4, 1}});
  EXPECT_THAT(found.holes, IsEmpty());
  EXPECT_THAT(found.single, ElementsAre("zero"));
}

TEST(ZeroTensors, AHoleTakesSeveralMatricesOrBeginsInsideOfATensor) {
  EXPECT_THAT(found_in({{"a", 4, 1}, {"b", 4, 0}, {"norm", 1, 0}, {"c", 4, 0}, {"d", 4, 1}}).holes,
              ElementsAre("b", "norm", "c"));
  const auto found = found_in({{"a", 4, 1, true}, {"b", 4, 0}});
  EXPECT_THAT(found.holes, ElementsAre("b"));
  EXPECT_THAT(found.single, IsEmpty());
  EXPECT_THAT(found_in({{"a", 4, 1, true}, {"b", 4, 1}}).holes, IsEmpty());
}

}  // namespace
}  // namespace gabbro
