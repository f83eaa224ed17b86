// Loading a model for a command: a progress bar meanwhile, and one line that says what runs where.
#pragma once

#include <memory>
#include <string>

#include "apps/cli/options.h"
#include "gabbro/engine/session.h"
#include "src/models/llm/model_plan.h"

namespace gabbro::cli {

// On `device` where it is open already.
std::shared_ptr<Engine> load_engine(const std::string& model, const CommonOptions& common, int64_t context = 0,
                                    const std::string& kv_type = "f16", const std::shared_ptr<Device>& device = nullptr,
                                    int64_t sequences = 1);

// A model of random weights, without a file.
std::shared_ptr<Engine> load_random_engine(const llm::Blueprint& shape, const FileType& type,
                                           const CommonOptions& common, int64_t context,
                                           const std::shared_ptr<Device>& device = nullptr, int64_t sequences = 1);

// "cpu  AMD EPYC 9654 (2 threads)  92 MiB weights + 45 MiB cache of 31 GiB"
std::string describe(const ModelFacts& facts);

}  // namespace gabbro::cli
