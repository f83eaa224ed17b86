// The license that a repository states.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/hub/listing.h"

namespace gabbro::hub {

// "openrail++" of the model card: the field license of README.md, of another license its name and link. Without it the
// first line of LICENSE. `folder` has the files. Empty: neither is there. Texts of the repository: to be printed
// escaped.
std::string license_of(const std::string& folder, const std::vector<RepoFile>& files);

// Reads the field of the text of README.md; empty: it has none.
std::string license_of_card(std::string_view text);

}  // namespace gabbro::hub
