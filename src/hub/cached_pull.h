// `gabbro pull` without the Hub: what the cache has already.
#pragma once

#include <optional>

#include "src/hub/pull.h"

namespace gabbro::hub {

// The snapshot of the name's revision (without one the default branch), or the GGUF model of its tag; nothing where it
// is not there or not whole. With patterns: the snapshot, if it has a file that they choose. Throws bad_input where the
// name could mean several models.
std::optional<PullResult> pull_from_cache(const Settings& settings, const PullOptions& options);

}  // namespace gabbro::hub
