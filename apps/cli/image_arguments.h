// The arguments of `image`, and the text that it writes into its pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/options.h"
#include "src/pictures/picture_text.h"
#include "src/pictures/pipeline.h"

namespace gabbro::cli {

struct ImageArguments {
  CommonOptions common;
  std::string model, prompt, negative, out, sampler, schedule, preview_decoder, init, like, vae;
  std::string said_model;  // the model that a picture of --parameters was drawn with; empty: it does not say
  std::string mask, lora_folder, parameters, resume_latent, bands = "auto", precision = "auto";
  std::optional<std::string> noise, weights;  // none: as `like` has them
  std::vector<std::string> embeddings, loras, text_encoders, tokenizers;
  std::optional<uint64_t> seed;
  std::optional<float> eta;
  int64_t width = 0, height = 0, steps = 20, count = 1, batch = 1, clip_skip = 0;
  std::optional<int64_t> only_position;  // the picture of the batch that is drawn; none: all
  float guidance = 7.5f, guidance_rescale = 0, strength = 0.8f, mask_blur = 0, hires = 1, hires_strength = 0.7f;
  bool metadata = true, mark = false, preview = false;
};

// The request without a seed. Reads pictures and a latent. Throws bad_input that names the option or the file.
pictures::PictureRequest picture_request(const ImageArguments& o);

// As A1111 writes it.
pictures::PictureText describe_picture(const ImageArguments& o, const pictures::PictureRequest& request,
                                       const pictures::PictureResult& result, const pictures::PipelineFacts& facts);

// IPTC's mark of pictures that a model made (DigitalSourceType), as an XMP packet (ISO 16684-1).
inline constexpr const char* kMadeByModel =
    "<?xpacket begin=\"\xEF\xBB\xBF\" id=\"W5M0MpCehiHzreSzNTczkc9d\"?>"
    "<x:xmpmeta xmlns:x=\"adobe:ns:meta/\"><rdf:RDF xmlns:rdf=\"http://www.w3.org/1999/02/22-rdf-syntax-ns#\">"
    "<rdf:Description rdf:about=\"\" xmlns:Iptc4xmpExt=\"http://iptc.org/std/Iptc4xmpExt/2008-02-29/\" "
    "Iptc4xmpExt:DigitalSourceType=\"http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia\"/>"
    "</rdf:RDF></x:xmpmeta><?xpacket end=\"r\"?>";

// --decode-bands: auto, on or off.
pictures::DecodeBands decode_bands_of(const std::string& name);

}  // namespace gabbro::cli
