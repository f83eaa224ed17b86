// Sources of weights: ranges of rows and columns in all formats, decorators, tensors of any shape, and modules that are
// made of a checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gabbro/nn.h"
#include "gabbro/nn/state_file.h"
#include "src/backend/device.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/formats/quant/quant.h"
#include "src/formats/random_file.h"
#include "src/models/llm/registry.h"
#include "src/models/weights/adapted_weights.h"
#include "src/models/weights/checkpoint_weights.h"
#include "src/models/weights/module_weights.h"
#include "src/models/weights/observed_weights.h"
#include "src/models/weights/streamed_source.h"
#include "src/plan/eval.h"
#include "tests/llm/family_folder.h"

namespace gabbro::llm {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::shared_ptr<Device> device() {
  static const std::shared_ptr<Device> opened = open_device("auto", {.threads = 2});
  return opened;
}

std::vector<DType> weight_formats() {
  std::vector<DType> formats = {DType::f32, DType::f16, DType::bf16};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (is_quantized(dtype)) formats.push_back(dtype);
  }
  return formats;
}

// A file with a matrix "m.weight" and other tensors of a format.
Checkpoint random_weights(DType dtype, const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors) {
  gguf::Writer writer(gguf::kPageAlignment);
  writer.add_string("general.architecture", "test");
  for (const auto& [name, shape] : tensors) {
    const bool matrix = shape.size() > 1;
    writer.declare_tensor(name, gguf::ggml_type_number(matrix ? dtype : DType::f32), shape);
  }
  return gguf::random_file("random", writer, 0.02F, 1);
}

std::vector<float> stored_values(const Checkpoint& checkpoint, const std::string& name) {
  const CheckpointTensor& tensor = checkpoint.require_tensor(name);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  dequantize_row(tensor.dtype(), tensor.data.data(), values.data(), std::ssize(values));
  return values;
}

// All rows of a matrix that may be packed.
std::vector<float> rows_of(const Tensor& matrix, int64_t rows) {
  std::vector<int32_t> ids(static_cast<size_t>(rows));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const Tensor wanted = embedding(matrix, device()->upload(DType::i32, Shape{rows}, ids.data()));
  return to_host<float>(cast(wanted, DType::f32));
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Tensor inputs(int64_t tokens, int64_t columns) {
  std::vector<float> values(static_cast<size_t>(tokens * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int>(i * 7 % 31) - 15) / 16;
  return device()->upload(DType::f32, Shape{tokens, columns}, values.data());
}

std::vector<float> run(nn::Linear& layer, const Tensor& x) { return to_host<float>(layer(x)); }

// A weight on a device differs from the file's by a rounding to f16, or to the levels of kernels.
constexpr float kRounding = 1.0F / 1024;

TEST(WeightRanges, AreTheRowsAndColumnsOfTheMatrixInAllFormats) {
  constexpr int64_t kRows = 11;
  for (const DType dtype : weight_formats()) {
    SCOPED_TRACE(dtype_name(dtype));
    const int64_t block = std::max<int64_t>(3, dtype_info(dtype).block_elements), columns = 3 * block;
    const Checkpoint checkpoint = random_weights(dtype, {{"m.weight", {kRows, columns}}});
    const std::vector<float> stored = stored_values(checkpoint, "m.weight");
    float largest = 0;
    for (const float value : stored) largest = std::max(largest, std::abs(value));
    CheckpointWeights weights(checkpoint, {}, device(), {});
    const IndexRange all{}, some_rows{5, 4}, last_rows{8, 3}, some_columns{block, block},
        last_columns{block, 2 * block};
    const std::pair<IndexRange, IndexRange> cases[] = {
        {some_rows, all}, {all, some_columns}, {last_rows, last_columns}, {{0, 1}, {0, block}}};
    for (const auto& [of_rows, of_columns] : cases) {
      const MatrixSize size{kRows, columns, of_rows, of_columns};
      const int64_t n = size.wanted_rows(), k = size.wanted_columns();
      const std::vector<float> got = rows_of(weights.matrix("m.weight", size), n);
      ASSERT_EQ(std::ssize(got), n * k);
      for (int64_t i = 0; i < n * k; ++i) {
        const int64_t row = of_rows.first + i / k, column = of_columns.first + i % k;
        ASSERT_NEAR(got[static_cast<size_t>(i)], stored[static_cast<size_t>(row * columns + column)],
                    kRounding * largest)
            << "row " << row << ", column " << column;
      }
    }
  }
}

TEST(WeightRanges, OfColumnsThatAreNotWholeBlocksAreRefusedByName) {
  const Checkpoint checkpoint = random_weights(DType::q4_k, {{"m.weight", {4, 1024}}});
  CheckpointWeights weights(checkpoint, {}, device(), {});
  const auto load = [&](IndexRange columns) { weights.matrix("m.weight", {4, 1024, {}, columns}); };
  EXPECT_THAT(error_of([&] {
                load({0, 128});
              }),
              HasSubstr("tensor 'm.weight': columns 0 to 128 are not whole blocks of Q4_K, which have 256 elements"));
  EXPECT_THAT(error_of([&] { load({32, 256}); }), HasSubstr("columns 32 to 288"));
  EXPECT_EQ(error_of([&] { load({256, 512}); }), "no error");
  EXPECT_THROW(load({768, 512}), std::logic_error);
  // Rows of 32 elements cannot be quantized to blocks of 256.
  const Checkpoint floats = random_weights(DType::f16, {{"m.weight", {4, 1024}}});
  const WeightOptions options{
      .quantize = {{"m.weight", {.name = "m.weight", .shape = {4, 1024}, .dtype = DType::q4_k}}}};
  CheckpointWeights quantized(floats, {}, device(), options);
  EXPECT_THAT(error_of([&] {
                quantized.matrix("m.weight", {4, 1024, {}, {32, 32}});
              }),
              HasSubstr("row length 32 is not a multiple of q4_k's block size 256"));
}

// Tensor parallelism: outputs of row ranges are concatenated, outputs of column ranges add up.
TEST(WeightRanges, OfALayerGiveItsResults) {
  constexpr int64_t kRows = 6, kColumns = 96;
  const Checkpoint checkpoint = random_weights(DType::f32, {{"m.weight", {kRows, kColumns}}, {"m.bias", {kRows}}});
  CheckpointWeights weights(checkpoint, {}, device(), {});
  const Tensor x = inputs(3, kColumns);
  const std::vector<float> whole = run(*weights.linear("m", {kRows, kColumns}), x);
  const auto upper = weights.linear("m", {kRows, kColumns, {4, 2}, {}});
  const std::vector<float> y = run(*upper, x), bias = to_host<float>(weights.vector("m.bias", kRows));
  for (size_t t = 0; t < 3; ++t)
    for (size_t n = 0; n < 2; ++n) EXPECT_NEAR(y[2 * t + n], whole[kRows * t + 4 + n], 1e-6);
  std::vector<float> sum(whole.size());
  for (const int64_t first : {0, 32, 64}) {
    const auto part = weights.projection("m.weight", {kRows, kColumns, {}, {first, 32}});
    const std::vector<float> partial = run(*part, slice(x, 1, first, 32));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += partial[i];
  }
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i] + bias[i % kRows], whole[i], 1e-6);
}

TEST(WeightRanges, OfAnAdaptedLayerGiveItsResults) {
  const std::string folder = GABBRO_SOURCE_DIR "/tests/data/adapters/llama";
  const auto adapter = std::make_shared<const Adapter>(Adapter::open(folder));
  const ScaledAdapter scaled[] = {{.adapter = adapter, .scale = std::make_shared<float>(2.0F)}};
  const safetensors::File expected(folder + "/expected.safetensors");
  const Checkpoint checkpoint = Checkpoint::open(family_folder(expected.metadata().at("model")));
  const std::span<const WeightName> names = family_of(checkpoint).names;
  const std::string name = "blk.0.attn_q.weight";
  const std::vector<int64_t> shape = checkpoint.require_tensor(weight_name(names, checkpoint, name)).shape;
  const int64_t rows = shape[0], columns = shape[1], half = columns / 2;
  CheckpointWeights stored(checkpoint, names, device(), {});
  AdaptedWeights weights(stored, names, scaled);
  const Tensor x = inputs(3, columns);
  const std::vector<float> plain = run(*stored.projection(name, {rows, columns}), x);
  const std::vector<float> whole = run(*weights.projection(name, {rows, columns}), x);
  EXPECT_NE(plain, whole);
  const auto left = weights.projection(name, {rows, columns, {}, {0, half}});
  const auto right = weights.projection(name, {rows, columns, {}, {half, columns - half}});
  const std::vector<float> a = run(*left, slice(x, 1, 0, half)), b = run(*right, slice(x, 1, half, columns - half));
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(a[i] + b[i], whole[i], 1e-4);
  const std::vector<float> y = run(*weights.projection(name, {rows, columns, {rows - 3, 3}, {}}), x);
  for (size_t t = 0; t < 3; ++t) {
    for (size_t n = 0; n < 3; ++n) EXPECT_NEAR(y[3 * t + n], whole[static_cast<size_t>(rows) * (t + 1) - 3 + n], 1e-4);
  }
  EXPECT_THAT(error_of([&] { weights.require_used(); }), HasSubstr("the model has no linear layer of that name"));
}

TEST(ObservedWeights, CountTheInputsOfAMatrixOnce) {
  const Checkpoint checkpoint = random_weights(DType::f32, {{"blk.0.m.weight", {6, 32}}});
  CheckpointWeights stored(checkpoint, {}, device(), {});
  const auto squares = std::make_shared<InputSquares>();
  ObservedWeights weights(stored, squares);
  const Tensor x = inputs(5, 32);
  for (const int64_t first : {0, 3}) run(*weights.projection("blk.0.m.weight", {6, 32, {first, 3}, {}}), x);
  ASSERT_EQ(squares->pending().size(), 1u);
  std::vector<Tensor> pending = squares->pending();
  eval(pending);
  squares->accumulate();
  const ImportanceMatrix matrix = squares->result();
  const std::vector<float> values = to_host<float>(x);
  for (size_t k = 0; k < 32; ++k) {
    float sum = 0;
    for (size_t t = 0; t < 5; ++t) sum += values[32 * t + k] * values[32 * t + k];
    EXPECT_NEAR(matrix.entries.at("blk.0.m.weight").sums[k], sum, 1e-5);
  }
  EXPECT_THROW(weights.projection("blk.0.m.weight", {6, 32, {}, {0, 16}}), std::logic_error);
}

// Takes one matrix, and notes where its rows are.
class NotedStream : public StreamedWeights {
 public:
  bool takes(const std::string& name) const override { return name == "m.weight"; }
  Tensor add(const MatrixInFiles& matrix) override {
    added = matrix;
    return device()->upload(DType::f32, Shape{matrix.rows, matrix.columns}, nullptr);
  }
  bool takes_by_need(const std::string&) const override { return false; }
  Tensor add_experts(const MatrixInFiles&) override { throw std::logic_error("no experts"); }
  std::shared_ptr<ExpertSlots> expert_slots(const std::string&) override { return nullptr; }
  size_t resident_bytes() const override { return 0; }

  MatrixInFiles added;
};

TEST(StreamedSource, HasTheRowsAndColumnsInTheFile) {
  constexpr int64_t kRows = 7, kColumns = 96;
  const Checkpoint checkpoint = random_weights(DType::q8_0, {{"m.weight", {kRows, kColumns}}, {"n.weight", {2, 32}}});
  CheckpointWeights stored(checkpoint, {}, device(), {.resident_bytes = 1 << 16});
  NotedStream stream;
  StreamedSource weights(stored, stream);
  rows_of(weights.matrix("n.weight", {2, 32}), 2);
  EXPECT_EQ(stream.added.rows, 0);
  weights.projection("m.weight", {kRows, kColumns, {2, 3}, {32, 64}});
  EXPECT_EQ(stream.added.rows, 3);
  EXPECT_EQ(stream.added.columns, 64);
  const std::vector<float> all = stored_values(checkpoint, "m.weight");
  std::vector<float> row(64);
  for (int64_t i = 0; i < 3; ++i) {
    dequantize_row(DType::q8_0, stream.added.row(i), row.data(), 64);
    for (size_t k = 0; k < row.size(); ++k) EXPECT_EQ(row[k], all[static_cast<size_t>((2 + i) * kColumns + 32) + k]);
  }
}

TEST(CheckpointWeights, GiveTensorsOfAnyShape) {
  const std::vector<int64_t> shape = {5, 3, 3, 2};
  const Checkpoint checkpoint = random_weights(DType::f16, {{"conv.weight", shape}});
  CheckpointWeights weights(checkpoint, {}, device(), {});
  const std::vector<float> stored = stored_values(checkpoint, "conv.weight");
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor conv = weights.tensor("conv.weight", shape, {}, dtype);
    EXPECT_EQ(conv.dtype(), dtype);
    EXPECT_EQ(conv.shape(), Shape(shape));
    EXPECT_EQ(to_host<float>(cast(conv, DType::f32)), stored);
  }
  EXPECT_THAT(error_of([&] {
                weights.tensor("conv.weight", {5, 3, 2, 3});
              }),
              HasSubstr("tensor 'conv.weight' has shape (5, 3, 3, 2), the model's sizes ask for (5, 3, 2, 3)"));
}

// A folder as Diffusers and PyTorch write it, with the module's own names.
struct SavedModule {
  explicit SavedModule(const nn::Module& module)
      : folder(fs::temp_directory_path() / fmt::format("gabbro_modules_{}", ::getpid())) {
    fs::create_directories(folder);
    std::ofstream(folder / "config.json") << R"({"model_type": "test"})";
    nn::save((folder / "model.safetensors").string(), module);
  }
  ~SavedModule() { fs::remove_all(folder); }
  SavedModule(const SavedModule&) = delete;

  fs::path folder;
};

TEST(ModuleWeights, MakeModulesOfAFolder) {
  const nn::Factory make{.device = device()};
  const nn::TransformerLayerOptions options{.d_model = 32, .nhead = 2, .dim_feedforward = 64, .dropout = 0};
  const auto module = std::make_shared<nn::TransformerEncoder>(make, options, 2, true);
  const SavedModule saved(*module);
  const Checkpoint checkpoint = Checkpoint::open(saved.folder.string());
  const WeightOptions in_q8_0{
      .quantize = {{"layers.1.linear1.weight", {.name = "", .shape = {64, 32}, .dtype = DType::q8_0}}}};
  const Tensor x = reshape(inputs(6, 32), Shape{6, 1, 32});
  const std::vector<float> expected = to_host<float>((*module)(x));
  for (const bool quantized : {false, true}) {
    CheckpointWeights weights(checkpoint, {}, device(), quantized ? in_q8_0 : WeightOptions{});
    nn::Factory from_files = make;
    from_files.weights = std::make_shared<SourcedModuleWeights>(weights);
    const auto loaded = std::make_shared<nn::TransformerEncoder>(from_files, options, 2, true);
    EXPECT_TRUE(loaded->parameters().empty());
    const std::vector<float> y = to_host<float>((*loaded)(x));
    // The normalized results are below 4; weights of 8 bits are off by 1/256 of the largest, 1/8, in 32 products.
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], quantized ? 2e-2 : 1e-5);
    if (quantized) {
      EXPECT_NE(y, expected);
    }
  }
  CheckpointWeights weights(checkpoint, {}, device(), {});
  nn::Factory from_files = make;
  from_files.weights = std::make_shared<SourcedModuleWeights>(weights);
  const nn::ConvModuleOptions conv{.in_channels = 2, .out_channels = 3, .kernel_size = {3, 3}};
  EXPECT_THAT(error_of([&] { nn::Conv2d(from_files.at("conv_in"), conv); }), HasSubstr("conv_in.weight"));
  const nn::LinearOptions no_bias{.in_features = 32, .out_features = 64, .bias = false};
  EXPECT_THAT(error_of([&] { nn::Linear(from_files.at("layers").at("0").at("linear1"), no_bias); }),
              HasSubstr("layers.0.linear1: the weights have a bias, and the layer none"));
}

}  // namespace
}  // namespace gabbro::llm
