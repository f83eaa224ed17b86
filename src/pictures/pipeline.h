// A loaded pipeline of Stable Diffusion: from a text to pictures.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/pictures/picture_request.h"
#include "src/pictures/precision.h"

namespace gabbro {
class Device;
}

namespace gabbro::pictures {

struct PipelineOptions {
  std::string device = "auto";               // as open_device() takes it
  int threads = 0;                           // of a CPU device; 0: one per physical core
  bool check_weights = true;                 // refuse values that are not numbers
  bool encoder = false;                      // also what encodes pictures, for requests that begin with one
  std::string preview_decoder{};             // a folder of TAESD; empty: previews are a linear map of latents
  std::string vae{};                         // a folder or file in place of the pipeline's autoencoder
  std::vector<std::string> text_encoders{};  // likewise; two for SDXL
  std::vector<std::string> tokenizers{};     // folders in place of the pipeline's; one may be for both encoders
  std::vector<std::string> embeddings{};     // files of textual inversion, [NAME=]FILE
  Precision precision = Precision::kAuto;    // of the U-Net and the autoencoder
  uint64_t memory = 0;                       // most bytes on the device (placement.h); 0: as much as there is
  int64_t width = 0, height = 0;             // of the pictures that `memory` is for; 0: the model's
  double hires = 1;                          // the multiple of these sides at which they are drawn once more
  DecodeBands bands = DecodeBands::kAuto;    // how they are decoded
  std::function<void(const std::string& part, double done)> progress{};  // while weights are loaded
};

struct PipelineParts;  // pipeline_parts.h

struct PipelineFacts {
  std::string name, class_name;
  std::string device_id, device_name;
  std::string precision = "f32";      // that the U-Net and the autoencoder compute in
  std::string sampler;                // the pipeline's own; empty: its class has none here
  int64_t width = 512, height = 512;  // that the model was trained with
  int64_t size_multiple = 8;          // of a picture's sides
  uint64_t file_bytes = 0;
  std::string placement;  // one line: what is done to need less memory; empty: nothing
};

class Pipeline {
 public:
  // `model`: a folder, a single file, or the name of a pipeline that comes with the program. Throws bad_input that
  // names the file and what is wrong there; kNoDevice.
  static std::shared_ptr<Pipeline> load(const std::string& model, const PipelineOptions& options);
  // As above; `vae`, `text_encoders` and `tokenizers` of the options are not read.
  static std::shared_ptr<Pipeline> load(const PipelineParts& parts, const PipelineOptions& options);
  ~Pipeline();

  const PipelineFacts& facts() const;
  const Device& device() const;
  // Throws bad_input that names the option for a request that cannot be; kInterrupted; failed() where numbers overflow.
  // One request at a time.
  PictureResult generate(const PictureRequest& request);
  // A small picture of a step: decoded by TAESD where that was given, else by a linear map.
  images::Picture preview(const PictureStep& step) const;
  // The steps of a request that can be followed, checked before anything is computed. Throws as generate().
  void check(const PictureRequest& request) const;

 private:
  friend class Drawing;
  struct State;
  void check_hires(const PictureRequest& request) const;
  void check_init(const PictureRequest& request) const;
  explicit Pipeline(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gabbro::pictures
