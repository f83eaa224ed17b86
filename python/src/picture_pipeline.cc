// Pipelines of pictures: the part of gabbro.image that is not Python. The GIL is released while a model loads and runs.
#include "python/src/callback.h"
#include "python/src/checked.h"
#include "python/src/fork.h"
#include "src/base/error.h"
#include "src/pictures/pipeline.h"

namespace gabbro::python {
namespace {

using pictures::NoiseKind;
using pictures::PictureRequest;
using pictures::PictureResult;
using pictures::PictureStep;
using pictures::Pipeline;
using pictures::PromptSyntax;

struct PicturePipeline {
  std::shared_ptr<Pipeline> pipeline;
};

PicturePipeline load(const std::string& folder, const std::string& device, int threads, const std::string& precision,
                     const std::vector<std::string>& embeddings, nb::object progress) {
  Callback report(std::move(progress));
  PicturePipeline loaded;
  {
    const WithoutGil without_gil;
    loaded.pipeline = Pipeline::load(
        folder, {.device = device,
                 .threads = threads,
                 .encoder = true,
                 .embeddings = embeddings,
                 .precision = pictures::parse_precision(precision),
                 .progress = [&](const std::string& part, double done) { report(std::string_view(part), done); }});
  }
  report.rethrow();
  return loaded;
}

nb::dict facts_of(const PicturePipeline& pipeline) {
  const pictures::PipelineFacts& f = pipeline.pipeline->facts();
  nb::dict facts;
  facts["name"] = f.name;
  facts["class_name"] = f.class_name;
  facts["sampler"] = f.sampler;
  facts["width"] = f.width;
  facts["height"] = f.height;
  facts["size_multiple"] = f.size_multiple;
  facts["file_bytes"] = f.file_bytes;
  facts["device"] = f.device_id;
  facts["device_name"] = f.device_name;
  facts["precision"] = f.precision;
  return facts;
}

PromptSyntax syntax_of(const std::string& name) {
  if (name == "none") return PromptSyntax::kPlain;
  if (name == "a1111") return PromptSyntax::kA1111;
  if (name == "comfyui") return PromptSyntax::kComfyUi;
  throw bad_input("[Pipeline] weights is '{}', expected 'none', 'a1111' or 'comfyui'", name);
}

NoiseKind noise_of(const std::string& name) {
  if (name == "torch") return NoiseKind::kTorch;
  if (name == "nv") return NoiseKind::kNv;
  throw bad_input("[Pipeline] rng is '{}', expected 'torch' or 'nv'", name);
}

template <class T>
void read_option(const nb::dict& options, const char* name, T& value) {
  if (options.contains(name)) value = value_argument<T>("Pipeline", name, options[name]);
}

// (bytes, width, height) of RGB.
std::shared_ptr<const images::Picture> picture_of(const nb::dict& given, const char* name) {
  if (!given.contains(name)) return nullptr;
  const auto [bytes, width, height] =
      value_argument<std::tuple<nb::bytes, int64_t, int64_t>>("Pipeline", name, given[name]);
  auto picture = std::make_shared<images::Picture>(images::Picture{.width = width, .height = height});
  const auto* const first = reinterpret_cast<const uint8_t*>(bytes.c_str());
  picture->pixels.assign(first, first + bytes.size());
  return picture;
}

PictureRequest request_of(const nb::dict& given) {
  PictureRequest request;
  std::string weights = "none", rng = "torch", like;
  double eta = 0;
  read_option(given, "prompt", request.prompt);
  read_option(given, "negative_prompt", request.negative);
  read_option(given, "width", request.width);
  read_option(given, "height", request.height);
  read_option(given, "num_inference_steps", request.steps);
  read_option(given, "guidance_scale", request.guidance);
  read_option(given, "guidance_rescale", request.guidance_rescale);
  read_option(given, "seed", request.seed);
  read_option(given, "clip_skip", request.clip_skip);
  read_option(given, "sampler", request.sampler);
  read_option(given, "schedule", request.schedule);
  read_option(given, "weights", weights);
  read_option(given, "rng", rng);
  read_option(given, "eta", eta);
  read_option(given, "like", like);
  read_option(given, "strength", request.strength);
  request.init = picture_of(given, "image");
  request.like = pictures::find_program(like);
  request.syntax = syntax_of(weights);
  request.noise = noise_of(rng);
  if (given.contains("eta")) request.eta = eta;
  return request;
}

// {"pixels": bytes, RGB in rows, ...}, or {} where `cancel` stopped it. `on_step(step, steps, timestep, latent)` may be
// None; latent is [C, h, w].
nb::dict generate(const PicturePipeline& model, const nb::dict& given, nb::object on_step, CancelFlag& cancel) {
  PictureRequest request = request_of(given);
  PictureResult result;
  Callback report(std::move(on_step));
  const std::shared_ptr<Device> host = device_argument(nb::str("cpu"));
  const auto is_stopped = [&] { return report.failed() || cancel.set; };
  request.on_step = [&](const PictureStep& step) {
    const Shape shape{step.channels, step.height, step.width};
    report(step.step, step.steps, step.timestep, host->upload(DType::f32, shape, step.latent.data()));
    if (is_stopped()) throw Error(ErrorCode::kInterrupted, "interrupted", "");
  };
  run_interruptibly([&](const std::atomic<bool>* interrupted) {
    request.cancel = interrupted;
    try {
      result = model.pipeline->generate(request);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInterrupted || !is_stopped()) throw;
    }
  });
  report.rethrow();
  nb::dict values;
  if (cancel.set) return values;
  const images::Picture& picture = result.picture;
  values["pixels"] = nb::bytes(reinterpret_cast<const char*>(picture.pixels.data()), picture.pixels.size());
  values["width"] = result.width;
  values["height"] = result.height;
  values["sampler"] = result.sampler;
  values["schedule"] = result.schedule;
  values["evaluations"] = result.evaluations;
  values["notes"] = result.notes;
  const int64_t multiple = model.pipeline->facts().size_multiple;
  const int64_t height = result.height / multiple, width = result.width / multiple;
  const Shape shape{std::ssize(result.latent) / (height * width), height, width};
  values["latent"] = nb::cast(host->upload(DType::f32, shape, result.latent.data()));
  values["seconds"] = result.text_seconds + result.denoise_seconds + result.decode_seconds;
  return values;
}

}  // namespace

void bind_picture_pipelines(nb::module_& m) {
  nb::class_<PicturePipeline>(m, "_PicturePipeline")
      .def_static("load", load, nb::arg("folder"), nb::arg("device"), nb::arg("threads"), nb::arg("precision"),
                  nb::arg("embeddings"), nb::arg("progress").none(),
                  nb::sig("def load(folder: str, device: str, threads: int, precision: str, embeddings: Sequence[str], "
                          "progress: Callable[[str, float], Any] | None) -> _PicturePipeline"))
      .def("facts", facts_of, nb::sig("def facts(self) -> dict[str, Any]"))
      .def("generate", generate, nb::arg("options"), nb::arg("on_step").none(), nb::arg("cancel"),
           nb::sig("def generate(self, options: dict[str, Any], on_step: Callable[[int, int, float, Tensor], Any] | "
                   "None, cancel: _CancelFlag) -> dict[str, Any]"));
}

}  // namespace gabbro::python
