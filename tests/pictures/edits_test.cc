// Pictures that begin with a picture, against diffusers (tests/reference/make_picture_edit_fixtures.py).
#include <cmath>

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

}  // namespace
}  // namespace gabbro::pictures
