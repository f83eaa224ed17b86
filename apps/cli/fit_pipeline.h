// `fit` of a pipeline of pictures: the memory of each part, and whether it fits the device.
#pragma once

#include <string>

#include "apps/cli/command_line.h"
#include "apps/cli/options.h"
#include "src/pictures/pipeline_memory.h"

namespace gabbro::cli {

struct PipelineFit {
  pictures::GivenParts given;
  pictures::PictureSize size;
  std::string precision = "auto";
  std::string shape;  // random weights of a published shape, in place of a model; empty: none
};

void add_pipeline_options(Command command, PipelineFit& options);

// Throws bad_input that names an option that was given for another kind of model.
void refuse_pipeline_options(const PipelineFit& options);

// Prints a table, or one JSON document; returns the exit code. Throws bad_input that names the file or the option,
// kNoDevice.
int fit_pipeline(const std::string& model, const CommonOptions& common, const PipelineFit& options);

}  // namespace gabbro::cli
