// The page that `bench ops --html` writes: one file with everything in it, which draws the document that --json prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gabbro::cli {

// Throws bad_input where neither a file nor a pipe can be written at this path: there is something else, or the folder
// is missing or closed. For asking before minutes of measuring.
void require_report_path(const std::string& path);

// Writes the whole page or nothing; throws failed() where that cannot be done.
void write_report(const std::string& path, const nlohmann::ordered_json& document);

}  // namespace gabbro::cli
