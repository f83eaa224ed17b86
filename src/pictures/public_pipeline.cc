// include/gabbro/image.h on top of Pipeline.
#include "gabbro/image.h"
#include "src/base/error.h"
#include "src/pictures/pipeline.h"

namespace gabbro {
namespace {

using pictures::NoiseKind;
using pictures::PromptSyntax;

PromptSyntax syntax_of(PromptWeights weights) {
  switch (weights) {
    case PromptWeights::kA1111:
      return PromptSyntax::kA1111;
    case PromptWeights::kComfyUi:
      return PromptSyntax::kComfyUi;
    case PromptWeights::kNone:
      break;
  }
  return PromptSyntax::kPlain;
}

std::shared_ptr<const images::Picture> picture_of(const RgbPicture& rgb, const char* name) {
  auto picture = std::make_shared<images::Picture>(
      images::Picture{.width = rgb.width, .height = rgb.height, .pixels = rgb.pixels});
  if (rgb.width < 1 || rgb.height < 1 || picture->size() != rgb.pixels.size())
    throw bad_input("{}: {} bytes for {} x {} pixels of RGB", name, rgb.pixels.size(), rgb.width, rgb.height);
  return picture;
}

pictures::PictureRequest request_of(const std::string& prompt, const PictureOptions& o) {
  pictures::PictureRequest request{.prompt = prompt,
                                   .negative = o.negative,
                                   .width = o.width,
                                   .height = o.height,
                                   .steps = o.steps,
                                   .guidance = o.guidance,
                                   .guidance_rescale = o.guidance_rescale,
                                   .seed = o.seed,
                                   .noise = o.noise == PictureNoise::kNv ? NoiseKind::kNv : NoiseKind::kTorch,
                                   .syntax = syntax_of(o.weights),
                                   .clip_skip = o.clip_skip,
                                   .sampler = o.sampler,
                                   .schedule = o.schedule,
                                   .eta = o.eta,
                                   .like = pictures::find_program(o.like),
                                   .strength = o.strength,
                                   .cancel = o.cancel};
  if (o.init != nullptr) request.init = picture_of(*o.init, "init");
  if (o.on_step) {
    request.on_step = [&o](const pictures::PictureStep& step) {
      o.on_step({.step = step.step,
                 .steps = step.steps,
                 .timestep = step.timestep,
                 .latent = step.latent,
                 .channels = step.channels,
                 .height = step.height,
                 .width = step.width});
    };
  }
  return request;
}

}  // namespace

struct PicturePipeline::State {
  std::shared_ptr<pictures::Pipeline> pipeline;
  PicturePipelineFacts facts;
};

PicturePipeline::PicturePipeline(std::unique_ptr<State> state) : state_(std::move(state)) {}
PicturePipeline::~PicturePipeline() = default;
const PicturePipelineFacts& PicturePipeline::facts() const { return state_->facts; }

std::shared_ptr<PicturePipeline> PicturePipeline::load(const std::string& folder,
                                                       const PicturePipelineOptions& options) {
  auto state = std::make_unique<State>();
  state->pipeline = pictures::Pipeline::load(folder, {.device = options.device,
                                                      .threads = options.threads,
                                                      .encoder = true,
                                                      .embeddings = options.embeddings,
                                                      .progress = options.progress});
  const pictures::PipelineFacts& f = state->pipeline->facts();
  state->facts = {.name = f.name,
                  .class_name = f.class_name,
                  .sampler = f.sampler,
                  .width = f.width,
                  .height = f.height,
                  .size_multiple = f.size_multiple,
                  .file_bytes = f.file_bytes,
                  .device_id = f.device_id,
                  .device_name = f.device_name};
  return std::shared_ptr<PicturePipeline>(new PicturePipeline(std::move(state)));
}

DrawnPicture PicturePipeline::draw(const std::string& prompt, const PictureOptions& options) {
  pictures::PictureResult result = state_->pipeline->generate(request_of(prompt, options));
  return {.width = result.width,
          .height = result.height,
          .pixels = std::move(result.picture.pixels),
          .latent = std::move(result.latent),
          .sampler = std::move(result.sampler),
          .notes = std::move(result.notes),
          .seconds = result.text_seconds + result.denoise_seconds + result.decode_seconds};
}

}  // namespace gabbro
