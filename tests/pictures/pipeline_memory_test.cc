// The forecast of a pipeline's memory against the memory that the device gives out while it draws.
#include "src/pictures/pipeline_memory.h"

#include "gabbro/error.h"
#include "src/pictures/pipeline.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro::pictures {
namespace {

TEST(PipelineMemory, counts_each_part) {
  for (const char* name : {"sd15", "sdxl"}) {
    const PipelineParts parts = open_pipeline(picture_folder(name));
    PictureSize size{.width = 64, .height = 32};
    const PipelineMemory memory = forecast_memory(parts, test_device(), size);
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
    PictureSize larger{.width = 128, .height = 64};
    EXPECT_GT(forecast_memory(parts, test_device(), larger).parts.back().work_bytes, memory.parts.back().work_bytes);
    PictureSize own;
    forecast_memory(parts, test_device(), own);
    EXPECT_GT(own.width, 0);
    EXPECT_EQ(own.width, own.height);
  }
}

TEST(PipelineMemory, refuses_a_size_that_cannot_be_drawn) {
  const PipelineParts parts = open_pipeline(picture_folder("sd15"));
  for (const PictureSize wrong : {PictureSize{.width = 33, .height = 32}, {.width = 32, .height = 31}}) {
    PictureSize size = wrong;
    EXPECT_THROW(forecast_memory(parts, test_device(), size), Error);
  }
}

}  // namespace
}  // namespace gabbro::pictures
