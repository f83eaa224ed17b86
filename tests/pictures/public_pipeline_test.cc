// include/gabbro/image.h: the numbers equal Pipeline's, which other tests compare with diffusers.
#include "gabbro/image.h"

#include "src/pictures/pipeline.h"
#include "tests/pictures/expected_tensors.h"

namespace gabbro {
namespace {

TEST(PicturePipeline, draws_the_pictures_of_the_internal_pipeline) {
  std::string last;
  const auto pipeline = PicturePipeline::load(
      pictures::picture_folder("sd15"),
      {.device = "cpu", .threads = 1, .progress = [&](const std::string& part, double) { last = part; }});
  EXPECT_EQ(last, "autoencoder");
  EXPECT_EQ(pipeline->facts().name, "sd15");
  EXPECT_EQ(pipeline->facts().size_multiple, 2);
  PictureOptions options{.negative = "blurry", .width = 24, .height = 16, .steps = 10};
  std::vector<double> timesteps;
  options.on_step = [&](const PictureProgress& progress) {
    EXPECT_EQ(progress.latent.size(), 4u * 8 * 12);
    EXPECT_EQ(progress.step, std::ssize(timesteps) + 1);
    timesteps.push_back(progress.timestep);
  };
  const DrawnPicture picture = pipeline->draw("a Red heart, 2 cats' eyes", options);
  const pictures::ExpectedTensors expected("sd15");
  EXPECT_LE(pictures::relative_error(picture.latent, expected.values("pndm.latent")), 1e-4);
  EXPECT_EQ(picture.pixels.size(), 24u * 16 * 3);
  EXPECT_EQ(picture.sampler, "pndm");
  EXPECT_EQ(timesteps.size(), 11u);
  EXPECT_GT(timesteps.front(), timesteps.back());
  // Each of these options changes the picture.
  const std::vector<uint8_t> first = picture.pixels;
  for (const auto change :
       {+[](PictureOptions& o) { o.seed = 1; }, +[](PictureOptions& o) { o.noise = PictureNoise::kNv; },
        +[](PictureOptions& o) { o.sampler = "euler"; }, +[](PictureOptions& o) { o.clip_skip = 1; },
        +[](PictureOptions& o) { o.guidance = 3; }}) {
    PictureOptions changed{.negative = "blurry", .width = 24, .height = 16, .steps = 10};
    change(changed);
    EXPECT_NE(pipeline->draw("a Red heart, 2 cats' eyes", changed).pixels, first);
  }
  std::vector<std::vector<float>> weighted;
  for (const PromptWeights weights : {PromptWeights::kNone, PromptWeights::kA1111, PromptWeights::kComfyUi})
    weighted.push_back(
        pipeline->draw("a (red:1.5) heart", {.width = 8, .height = 8, .steps = 1, .weights = weights}).latent);
  EXPECT_NE(weighted[0], weighted[1]);
  EXPECT_NE(weighted[1], weighted[2]);
}

TEST(PicturePipeline, refuses_and_stops) {
  EXPECT_THROW(PicturePipeline::load("/nowhere"), Error);
  const auto pipeline = PicturePipeline::load(pictures::picture_folder("sd15"), {.device = "cpu"});
  EXPECT_THROW(pipeline->draw("a", {.width = 25}), Error);
  const std::atomic<bool> cancel = true;
  try {
    pipeline->draw("a", {.width = 24, .height = 16, .cancel = &cancel});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInterrupted);
  }
}

}  // namespace
}  // namespace gabbro
