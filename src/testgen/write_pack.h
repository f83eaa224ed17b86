// Writes packs to folders: a folder appears whole, or not at all.
#pragma once

#include <string>

#include "src/testgen/pack.h"

namespace gabbro::testgen {

// Creates `folder` with the pack's files, with `alone` also kSharedFolder in it. A folder that is there is an error,
// except an empty one; with `replace` a folder that holds a pack is replaced, and nothing else is. Throws bad_input for
// a folder in the way, failed() where the disk refuses.
void write_pack(const Pack& pack, const std::string& folder, bool replace, bool alone);

// Creates kSharedFolder in `folder`, next to the packs there. One of another version is an error without `replace`.
// Throws as write_pack() does.
void write_shared(const std::string& folder, bool replace);

}  // namespace gabbro::testgen
