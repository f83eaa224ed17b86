// The forecast of a pipeline's memory against the memory that the device gives out while it draws.
#include "src/pictures/pipeline_memory.h"

#include "gabbro/error.h"
#include "src/pictures/pipeline.h"
#include "src/pictures/placement.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

TEST(PipelineMemory, counts_each_part) {
  for (const char* name : {"sd15", "sdxl"}) {
    const PipelineParts parts = open_pipeline(picture_folder(name));
    MemoryQuestion question{.size = {.width = 64, .height = 32}};
    const PipelineMemory memory = forecast_memory(parts, test_device(), question);
    ASSERT_EQ(memory.parts.size(), parts.text_encoders.size() + 2);
    uint64_t weights = 0, work = 0;
    for (const PartMemory& part : memory.parts) {
      EXPECT_GT(part.parameters, 0u) << part.name;
      EXPECT_GT(part.weight_bytes, 0u) << part.name;
      EXPECT_GT(part.work_bytes, 0u) << part.name;
      weights += part.weight_bytes;
      work = std::max(work, part.work_bytes);
    }
    EXPECT_EQ(memory.weight_bytes, weights);
    EXPECT_EQ(memory.work_bytes, work);
    EXPECT_EQ(memory.total_bytes(), weights + work);
    MemoryQuestion larger{.size = {.width = 128, .height = 64}};
    EXPECT_GT(forecast_memory(parts, test_device(), larger).parts.back().work_bytes, memory.parts.back().work_bytes);
    MemoryQuestion own;
    forecast_memory(parts, test_device(), own);
    EXPECT_GT(own.size.width, 0);
    EXPECT_EQ(own.size.width, own.size.height);
  }
}

TEST(PipelineMemory, refuses_a_size_that_cannot_be_drawn) {
  const PipelineParts parts = open_pipeline(picture_folder("sd15"));
  for (const PictureSize wrong : {PictureSize{.width = 33, .height = 32}, {.width = 32, .height = 31}}) {
    MemoryQuestion question{.size = wrong};
    EXPECT_THROW(forecast_memory(parts, test_device(), question), Error);
  }
}

// Bytes of matrices that stay in the mapped file of a device in host memory, which no pool counts.
uint64_t bytes_in_place(const PipelineParts& parts, const Device& device) {
  if (!device.host_accessible()) return 0;
  std::vector<const Checkpoint*> all{&parts.unet.checkpoint, &parts.autoencoder.checkpoint};
  for (const TextPart& text : parts.text_encoders) all.push_back(&text.checkpoint);
  uint64_t bytes = 0;
  for (const Checkpoint* const checkpoint : all) {
    for (const CheckpointTensor& tensor : checkpoint->tensors()) {
      const bool is_packed =
          tensor.shape.size() != 2 || device.matrix_bytes(tensor.dtype(), tensor.shape[0], tensor.shape[1]) > 0;
      if (!is_packed) bytes += tensor.data.size();
    }
  }
  return bytes;
}

struct MeasuredCase {
  const char* folder;
  int64_t width, height;
  Precision precision;
  DecodeBands bands = DecodeBands::kAuto;
};

// The most memory that a separate device has reserved for a picture.
uint64_t measured_peak(const PipelineParts& parts, const MeasuredCase& c, PipelineOptions options) {
  options.device = "auto";
  options.threads = 2;
  options.precision = c.precision;
  const std::shared_ptr<Pipeline> pipeline = Pipeline::load(parts, options);
  pipeline->generate({.prompt = "a heart",
                      .negative = "blurry",
                      .width = c.width,
                      .height = c.height,
                      .steps = 2,
                      .sampler = "ddim",
                      .bands = c.bands});
  return pipeline->device().memory(abi::MemoryKind::kDevice).reserved_peak;
}

// A measurement: minutes on the simulator, and pools of a CPU round the small sizes of these models up.
TEST(PipelineMemory, DISABLED_is_within_5_percent_of_the_peak) {
  // A CPU rounds sizes up to huge pages, which counts less in larger pictures.
  const int64_t factor = open_device("auto", {.threads = 2})->host_accessible() ? 6 : 1;
  for (MeasuredCase c : std::initializer_list<MeasuredCase>{{"sd15", 256, 192, Precision::kF32, DecodeBands::kOff},
                                                            {"sdxl", 192, 192, Precision::kF32, DecodeBands::kOff},
                                                            {"sdxl", 192, 192, Precision::kF32, DecodeBands::kOn},
                                                            {"sd15", 256, 192, Precision::kF16, DecodeBands::kOff},
                                                            {"sdxl", 192, 192, Precision::kBf16, DecodeBands::kOff}}) {
    c.width *= factor;
    c.height *= factor;
    const PipelineParts parts = open_pipeline(picture_folder(c.folder));
    const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
    MemoryQuestion question{.size = {.width = c.width, .height = c.height}, .precision = c.precision, .bands = c.bands};
    const auto forecast = static_cast<double>(forecast_memory(parts, device, question).total_bytes());
    const auto peak = static_cast<double>(measured_peak(parts, c, {}) + bytes_in_place(parts, *device));
    EXPECT_NEAR(forecast / peak, 1, 0.05) << c.folder << " in " << dtype_name(dtype_of(c.precision, device->facts()))
                                          << ": " << forecast << " of " << peak << " bytes";
  }
}

TEST(PipelineMemory, of_a_budget_is_refused_in_host_memory) {
  const std::shared_ptr<Device> device = open_device("cpu", {.threads = 2});
  const MemoryQuestion question{.size = {.width = 32, .height = 24}};
  EXPECT_THROW(place_pipeline(open_pipeline(picture_folder("sd15")), device, question, 1 << 20), Error);
}

// Blocks that take turns draw the picture of a pipeline that is all on the device. Minutes on the simulator.
TEST(PipelineMemory, DISABLED_of_a_budget_is_kept_and_draws_the_same_picture) {
  const std::shared_ptr<Device> device = open_device("auto", {.threads = 2});
  if (device->host_accessible()) GTEST_SKIP() << "for devices with separate memory";
  for (const char* name : {"sd15", "sdxl"}) {
    const PipelineParts parts = open_pipeline(picture_folder(name));
    MemoryQuestion question{.size = {.width = 32, .height = 24}, .precision = Precision::kF16};
    const PictureRequest request{
        .prompt = "a heart", .negative = "blurry", .width = 32, .height = 24, .steps = 4, .sampler = "ddim"};
    const auto drawn = [&](uint64_t memory) {
      return Pipeline::load(parts, {.threads = 2,
                                    .precision = Precision::kF16,
                                    .memory = memory,
                                    .width = request.width,
                                    .height = request.height});
    };
    const std::vector<float> expected = drawn(0)->generate(request).latent;
    question.text = false;
    question.resident_bytes = 0;
    const uint64_t least = forecast_memory(parts, device, question).total_bytes();
    EXPECT_THROW(drawn(least / 2), Error);
    for (const uint64_t memory : {least, least + 20000}) {
      const std::shared_ptr<Pipeline> pipeline = drawn(memory);
      EXPECT_NE(pipeline->facts().placement.find("each step copies"), std::string::npos) << pipeline->facts().placement;
      for (int i = 0; i < 2; ++i) EXPECT_EQ(pipeline->generate(request).latent, expected) << name;
    }
  }
}

}  // namespace
}  // namespace gabbro::pictures
