// One request on its way from noise, or from a picture, to a picture.
#pragma once

#include <memory>
#include <vector>

#include "src/pictures/noise/batch_noise.h"
#include "src/pictures/pipeline_state.h"

namespace gabbro::pictures {

class Drawing {
 public:
  Drawing(Pipeline::State& state, const PictureRequest& request);
  // Throws as Pipeline::generate().
  PictureResult run();

 private:
  // Sides of a latent.
  struct Size {
    int64_t height = 0, width = 0;
  };
  // From noise, or by the last steps of the schedule from `begin`, to the latent at the end.
  struct Pass {
    Size size;
    double strength = 1;
    const Latent* begin = nullptr;
  };

  size_t numbers(const Size& size) const { return static_cast<size_t>(channels_ * size.height * size.width); }
  Size latent_size() const;
  std::unique_ptr<BatchNoise> make_noise(uint64_t offset) const;
  void read_init();
  Latent encode(const Tensor& picture, BatchNoise& noise);
  Latent draw_at_size();
  Latent draw_larger(const Latent& latent);
  Latent draw(const Pass& pass, BatchNoise& noise);
  Latent call_model(const SamplerModel& model, const Schedule& schedule, const Pass& pass, const Latent& x,
                    double timestep);
  void decode();

  Pipeline::State& s_;
  const PictureRequest& request_;
  const ProgramRules rules_;
  const SchedulerConfig scheduler_;
  const int64_t channels_;  // of a latent
  EncodedPrompts prompts_;
  PictureResult result_;
  int64_t calls_ = 0;  // of the model, all in all

  images::Picture init_, mask_;  // of the result's size; without pixels: none
  Latent kept_;                  // the picture whose unmasked part stays; empty: none
  std::vector<float> share_;     // of each element that is redrawn, [h, w]
  Latent condition_;             // of models for inpainting: the mask, and the picture without the masked part
};

}  // namespace gabbro::pictures
