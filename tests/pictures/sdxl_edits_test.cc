// SDXL's pictures that begin with a picture, against diffusers (tests/reference/make_sdxl_edit_fixtures.py).
#include <filesystem>

#include "src/pictures/pipeline.h"
#include "tests/pictures/expected_tensors.h"
#include "tests/pictures/scheduler_copy.h"

namespace gabbro::pictures {
namespace {

constexpr double kXlEdited = 1e-4;  // as in sdxl_test.cc

std::shared_ptr<const images::Picture> stored_picture(const std::string& name) {
  const ExpectedTensors edits("edits");
  const Tensor tensor = edits.tensor(name);
  auto made = std::make_shared<images::Picture>();
  made->height = tensor.shape()[0];
  made->width = tensor.shape()[1];
  made->channels = tensor.shape().rank() == 3 ? 3 : 1;
  for (const float value : edits.values(name)) made->pixels.push_back(static_cast<uint8_t>(value));
  return made;
}

Latent xl_latent(const std::string& folder, double strength, bool masked) {
  PictureRequest request{.prompt = "a Red heart, 2 cats' eyes",
                         .negative = "blurry",
                         .steps = 10,
                         .guidance = 5,
                         .syntax = PromptSyntax::kPlain,
                         .like = Program::kDiffusers,
                         .init = stored_picture("init"),
                         .strength = strength};
  if (masked) request.mask = stored_picture("mask");
  return Pipeline::load(folder, {.threads = 2, .encoder = true})->generate(request).latent;
}

TEST(XlEdits, equal_those_of_diffusers) {
  namespace fs = std::filesystem;
  const ExpectedTensors expected("sdxl_edits");
  int compared = 0;
  for (const SchedulerRow& row : scheduler_rows()) {
    const std::string key = "." + std::string(row.name) + ".latent";
    if (!expected.has("to_picture" + key)) continue;
    ++compared;
    const std::string folder = with_scheduler("sdxl", row);
    const auto error = [&](const char* kind, double strength, bool masked) {
      return relative_error(xl_latent(folder, strength, masked), expected.values(kind + key));
    };
    EXPECT_LE(error("to_picture", 0.6, false), kXlEdited) << row.name;
    EXPECT_LE(error("inpaint", 1, true), kXlEdited) << row.name;
    EXPECT_LE(error("inpaint_part", 0.6, true), kXlEdited) << row.name;
    fs::remove_all(fs::path(folder) / "unet");
    fs::copy(picture_folder("sdxl_edits/unet9"), fs::path(folder) / "unet");
    EXPECT_LE(error("inpaint9", 1, true), kXlEdited) << row.name;
  }
  EXPECT_EQ(compared, 3);
}

}  // namespace
}  // namespace gabbro::pictures
