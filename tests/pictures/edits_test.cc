// Pictures that begin with a picture, against diffusers (tests/reference/make_picture_edit_fixtures.py).
#include <cmath>
#include <filesystem>

#include "gabbro/error.h"
#include "src/images/resize.h"
#include "src/pictures/pipeline.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/scheduler_copy.h"

namespace gabbro::pictures {
namespace {

constexpr double kEdited = 1e-4;  // as in pipeline_test.cc

const ExpectedTensors& expected() {
  static const ExpectedTensors all("edits");
  return all;
}

std::shared_ptr<const images::Picture> picture(const std::string& name) {
  const Tensor tensor = expected().tensor(name);
  auto made = std::make_shared<images::Picture>();
  made->height = tensor.shape()[0];
  made->width = tensor.shape()[1];
  made->channels = tensor.shape().rank() == 3 ? 3 : 1;
  for (const float value : expected().values(name)) made->pixels.push_back(static_cast<uint8_t>(value));
  return made;
}

PictureRequest edit_request(double strength) {
  return {.prompt = "a Red heart, 2 cats' eyes",
          .negative = "blurry",
          .steps = 10,
          .init = picture("init"),
          .strength = strength};
}

std::shared_ptr<Pipeline> load_with_encoder(const std::string& folder) {
  return Pipeline::load(folder, {.threads = 2, .encoder = true});
}

int worst_difference(const images::Picture& actual, const std::vector<float>& wanted, double scale) {
  int worst = actual.pixels.size() == wanted.size() ? 0 : 256;
  for (size_t i = 0; worst < 256 && i < wanted.size(); ++i)
    worst = std::max(worst, std::abs(actual.pixels[i] - static_cast<int>(std::lround(wanted[i] * scale))));
  return worst;
}

TEST(Resizing, equals_that_of_pillow) {
  const auto init = picture("init"), mask = picture("mask");
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{13, 9}, {24, 10}, {40, 33}, {1, 1}}) {
    const std::string name = "resized." + std::to_string(width) + "x" + std::to_string(height);
    EXPECT_EQ(worst_difference(images::resize_lanczos(*init, width, height), expected().values(name), 1), 0) << name;
  }
  for (const auto& [radius, name] : {std::pair{0.5, "blurred.0.5"}, {2.0, "blurred.2"}, {7.0, "blurred.7"}})
    EXPECT_EQ(worst_difference(images::blur_gaussian(*mask, radius), expected().values(name), 1), 0) << name;
  EXPECT_EQ(images::blur_gaussian(*mask, 0).pixels, mask->pixels);
  EXPECT_THROW(images::resize_lanczos(*init, 0, 4), Error);
  EXPECT_THROW(images::blur_gaussian(*init, 1), Error);
}

TEST(PictureToPicture, equals_that_of_diffusers) {
  for (const SchedulerRow& row : scheduler_rows()) {
    const std::string key = "to_picture." + std::string(row.name) + ".latent";
    if (!expected().has(key)) continue;
    const auto pipeline = load_with_encoder(with_scheduler("sd15", row));
    PictureRequest request = edit_request(0.6);
    request.like = Program::kDiffusers;
    request.syntax = PromptSyntax::kPlain;
    const PictureResult result = pipeline->generate(request);
    EXPECT_LE(relative_error(result.latent, expected().values(key)), kEdited) << row.name;
    if (row.name != std::string("ddim")) continue;
    EXPECT_EQ(result.evaluations, 6);
    EXPECT_LE(worst_difference(result.picture, expected().values("to_picture.picture"), 255), 1);
  }
}

TEST(PictureToPicture, of_strength_0_is_the_picture) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  PictureRequest request = edit_request(0);
  const PictureResult result = pipeline->generate(request);
  EXPECT_EQ(result.picture.pixels, request.init->pixels);
  EXPECT_EQ(result.evaluations, 0);
  request.width = 12;  // of another size: resized
  EXPECT_EQ(pipeline->generate(request).picture.pixels, images::resize_lanczos(*request.init, 12, 16).pixels);
}

TEST(PictureToPicture, of_strength_1_is_that_of_the_text) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  for (const char* sampler : {"ddim", "euler", "pndm"}) {
    PictureRequest request = edit_request(1);
    request.sampler = sampler;
    const PictureResult with = pipeline->generate(request);
    request.width = 24;
    request.height = 16;
    request.init = nullptr;
    EXPECT_EQ(with.latent, pipeline->generate(request).latent) << sampler;
  }
}

TEST(PictureToPicture, takes_every_sampler_and_size) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  PictureRequest request = edit_request(0.5);
  request.steps = 4;
  for (const Sampler& sampler : samplers()) {
    request.sampler = sampler.name;
    const PictureResult result = pipeline->generate(request);
    EXPECT_EQ(result.picture.width, 24) << sampler.name;
    for (const float value : result.latent) ASSERT_TRUE(std::isfinite(value)) << sampler.name;
  }
  // Sides that are not multiples are cut down to one, and a note says so.
  const images::Picture odd = images::resize_lanczos(*request.init, 21, 9);
  request.init = std::make_shared<images::Picture>(odd);
  const PictureResult result = pipeline->generate(request);
  EXPECT_EQ(result.picture.width, 20);
  EXPECT_EQ(result.picture.height, 8);
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_NE(result.notes[0].find("21 x 9"), std::string::npos) << result.notes[0];
}

TEST(PictureToPicture, refuses_what_cannot_be) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  const auto refused = [&](Pipeline& model, const char* part, auto change) {
    PictureRequest request = edit_request(0.6);
    change(request);
    try {
      model.check(request);
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused(*pipeline, "--strength -0.1", [](PictureRequest& r) { r.strength = -0.1; });
  refused(*pipeline, "--strength nan", [](PictureRequest& r) { r.strength = NAN; });
  refused(*pipeline, "--strength 1.5", [](PictureRequest& r) { r.strength = 1.5; });
  refused(*pipeline, "less than a step", [](PictureRequest& r) { r.strength = 0.09; });
  refused(*pipeline, "1 channels", [](PictureRequest& r) { r.init = picture("mask"); });
  const auto without = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  refused(*without, "without its encoder", [](PictureRequest&) {});
}

PictureRequest masked_request(double strength) {
  PictureRequest request = edit_request(strength);
  request.mask = picture("mask");
  return request;
}

// A copy of the pipeline with the U-Net of 9 channels.
std::string with_nine_channels(const SchedulerRow& row) {
  namespace fs = std::filesystem;
  const std::string folder = with_scheduler("sd15", row);
  fs::remove_all(fs::path(folder) / "unet");
  fs::copy(picture_folder("edits/unet9"), fs::path(folder) / "unet");
  return folder;
}

TEST(Inpainting, equals_that_of_diffusers) {
  for (const SchedulerRow& row : scheduler_rows()) {
    const std::string key = "." + std::string(row.name) + ".latent";
    if (!expected().has("inpaint" + key)) continue;
    const auto latent = [&](const std::string& folder, double strength) {
      PictureRequest request = masked_request(strength);
      request.like = Program::kDiffusers;
      request.syntax = PromptSyntax::kPlain;
      return load_with_encoder(folder)->generate(request).latent;
    };
    const std::string folder = with_scheduler("sd15", row);
    EXPECT_LE(relative_error(latent(folder, 1), expected().values("inpaint" + key)), kEdited) << row.name;
    EXPECT_LE(relative_error(latent(folder, 0.6), expected().values("inpaint_part" + key)), kEdited) << row.name;
    EXPECT_LE(relative_error(latent(with_nine_channels(row), 1), expected().values("inpaint9" + key)), kEdited)
        << row.name;
  }
}

TEST(Inpainting, keeps_pixels_outside_of_the_mask_to_the_bit) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  const SchedulerRow euler{"", R"("EulerDiscreteScheduler")"};
  const auto nine = load_with_encoder(with_nine_channels(euler));
  for (Pipeline* const model : {pipeline.get(), nine.get()}) {
    for (const Program like : {Program::kGabbro, Program::kDiffusers, Program::kComfyUi, Program::kA1111}) {
      for (const double strength : {0.5, 1.0}) {
        PictureRequest request = masked_request(strength);
        request.like = like;
        request.steps = 4;
        request.sampler = "euler";
        const images::Picture drawn = model->generate(request).picture;
        const images::Picture &init = *request.init, &mask = *request.mask;
        ASSERT_EQ(drawn.pixels.size(), init.pixels.size());
        size_t changed = 0;
        for (size_t i = 0; i < drawn.pixels.size(); ++i) {
          if (mask.pixels[i / 3] == 0) {
            ASSERT_EQ(drawn.pixels[i], init.pixels[i]) << i;
          }
          changed += drawn.pixels[i] != init.pixels[i];
        }
        EXPECT_GT(changed, 0u);
        // A blur mixes around the edge, and reaches not much farther.
        request.mask_blur = 1;
        const images::Picture blurred = model->generate(request).picture;
        const images::Picture soft = images::blur_gaussian(mask, 1);
        for (size_t i = 0; i < drawn.pixels.size(); ++i) {
          if (soft.pixels[i / 3] == 0) {
            ASSERT_EQ(blurred.pixels[i], init.pixels[i]) << i;
          }
        }
      }
    }
  }
}

TEST(Inpainting, takes_every_sampler) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  PictureRequest request = masked_request(0.7);
  request.steps = 3;
  for (const Sampler& sampler : samplers()) {
    request.sampler = sampler.name;
    const PictureResult result = pipeline->generate(request);
    for (const float value : result.latent) ASSERT_TRUE(std::isfinite(value)) << sampler.name;
  }
}

TEST(Inpainting, refuses_masks_that_do_not_fit) {
  const auto pipeline = load_with_encoder(picture_folder("sd15"));
  const SchedulerRow euler{"", R"("EulerDiscreteScheduler")"};
  const auto nine = load_with_encoder(with_nine_channels(euler));
  const auto refused = [&](Pipeline& model, const char* part, auto change) {
    PictureRequest request = masked_request(1);
    change(request);
    try {
      model.check(request);
      ADD_FAILURE() << "accepts " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused(*pipeline, "no picture", [](PictureRequest& r) { r.init = nullptr; });
  refused(*pipeline, "3 channels", [](PictureRequest& r) { r.mask = r.init; });
  refused(*pipeline, "--mask: 24 x 16 pixels", [](PictureRequest& r) {
    r.init = std::make_shared<images::Picture>(images::resize_lanczos(*r.init, 24, 24));
  });
  refused(*pipeline, "--mask-blur -1", [](PictureRequest& r) { r.mask_blur = -1; });
  refused(*nine, "no mask", [](PictureRequest& r) { r.mask = nullptr; });
}

TEST(Hires, redraws_the_picture_at_a_larger_size) {
  const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  PictureRequest request{.prompt = "a", .width = 16, .height = 12, .steps = 4, .sampler = "euler", .hires = 1.5};
  const PictureResult result = pipeline->generate(request);
  EXPECT_EQ(result.picture.width, 24);
  EXPECT_EQ(result.picture.height, 18);
  EXPECT_EQ(result.evaluations, 4 + 2);  // int(0.7 · 4)
  request.like = Program::kA1111;
  EXPECT_EQ(pipeline->generate(request).evaluations, 4 + 3);
  for (const double hires : {0.5, 9.0, std::nan("")}) {
    request.hires = hires;
    EXPECT_THROW(pipeline->check(request), Error) << hires;
  }
  request.hires = 2;
  request.hires_strength = 0;
  EXPECT_THROW(pipeline->check(request), Error);
}

TEST(Batches, of_one_stream_continue_its_noise) {
  const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  const auto draw = [&](Program like, uint64_t seed, int64_t batch, int64_t position) {
    return pipeline
        ->generate({.prompt = "a",
                    .width = 24,
                    .height = 16,
                    .steps = 2,
                    .seed = seed,
                    .sampler = "euler_a",
                    .like = like,
                    .batch = batch,
                    .position = position})
        .latent;
  };
  // The first picture of a stream is the single one where the steps draw no noise; A1111's have seeds in sequence.
  EXPECT_EQ(draw(Program::kA1111, 5, 3, 2), draw(Program::kA1111, 7, 1, 0));
  EXPECT_EQ(draw(Program::kGabbro, 5, 3, 2), draw(Program::kGabbro, 7, 1, 0));
  EXPECT_NE(draw(Program::kDiffusers, 5, 3, 2), draw(Program::kDiffusers, 7, 1, 0));
  EXPECT_NE(draw(Program::kDiffusers, 5, 3, 1), draw(Program::kDiffusers, 5, 3, 2));
  EXPECT_THROW(draw(Program::kDiffusers, 5, 3, 3), Error);
}

TEST(Latents, are_given_before_they_are_decoded) {
  const auto pipeline = Pipeline::load(picture_folder("sd15"), {.threads = 2});
  PictureRequest request{.prompt = "a", .width = 24, .height = 16, .steps = 2};
  Latent seen;
  request.on_latent = [&](const Latent& latent, int64_t height, int64_t width) {
    seen = latent;
    EXPECT_EQ(height, 8);
    EXPECT_EQ(width, 12);
  };
  const PictureResult result = pipeline->generate(request);
  EXPECT_EQ(seen, result.latent);
  request.latent = std::make_shared<Latent>(seen);
  const PictureResult again = pipeline->generate(request);
  EXPECT_EQ(again.picture.pixels, result.picture.pixels);
  EXPECT_EQ(again.evaluations, 0);
  request.width = 16;
  EXPECT_THROW(pipeline->generate(request), Error);
}

}  // namespace
}  // namespace gabbro::pictures
