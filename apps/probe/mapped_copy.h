// `gabbro_probe copy`: copies from a mapped file to a device, through a backend plugin.
#pragma once

#include <string>

namespace gabbro::probe {

// Maps a file of 256 MiB that it makes in `folder`, and prints "rate=BYTES PER SECOND" of the copy, or "error=...".
// Some drivers pin such pages one by one, and take minutes: the caller has a time limit. Returns the exit code.
int time_mapped_copy(const std::string& plugin, int index, const std::string& folder);

}  // namespace gabbro::probe
