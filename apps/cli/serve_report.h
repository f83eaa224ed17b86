// The page of `bench serve --html`: tables and plots in one file without scripts.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/cli/serve_measure.h"

namespace gabbro::cli {

// `document` is what --json prints, with a row in "points" for each of `measured`.
std::string serve_report(const nlohmann::ordered_json& document, const std::vector<Measured>& measured);

}  // namespace gabbro::cli
