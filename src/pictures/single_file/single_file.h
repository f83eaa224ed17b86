// A model of pictures in one file, as A1111 and ComfyUI have it, as the parts of a pipeline.
#pragma once

#include <string>
#include <vector>

#include "src/pictures/pipeline_parts.h"
#include "src/pictures/single_file/signature.h"

namespace gabbro::pictures {

// The field of a file's metadata where `convert` stores the configurations that shapes do not tell: JSON with
// "class_name", "unet", "vae", "text_encoder", "text_encoder_2", "scheduler", "padding" and
// "force_zeros_for_empty_prompt".
inline constexpr const char* kPipelineField = "gabbro.pipeline";

// Throws bad_input that names the file; for a part that is missing the hint is the option that gives it.
PipelineParts open_single_file(const std::string& path, const GivenParts& given);

// The family of a single file and the reasons, a line each. explain_single_file throws bad_input for an unknown file.
struct ExplainedFile {
  std::string title;
  std::vector<std::string> reasons;
  std::vector<PartSize> parts;
  std::vector<std::string> missing;  // parts, each with the option for it
};
ExplainedFile explain_single_file(const std::string& path);

// True of a pipeline's folder, the name of a pipeline that comes with the program, and a single file that
// holds_pictures() (other_models.h), or is a pickle. Throws bad_input for a damaged file.
bool is_picture_model(const std::string& path);

// Replaces parts of a pipeline by given ones. Throws bad_input that names the option.
void replace_parts(PipelineParts& parts, const GivenParts& given);

}  // namespace gabbro::pictures
