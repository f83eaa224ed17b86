// The names of the last launches of this process, for the message of a fault: the runtimes do not say which kernel made
// it.
#pragma once

#include <cstdint>
#include <string>

namespace gabbro::gpu {

// A copy of the text that lives as long as the plugin.
const char* keep_name(const std::string& name);

// `name` is from keep_name, or a literal. Two stores; of launches at the same time one may be left out.
void note_launch(const char* name);

// The newest first, each name once, at most `most`. Returns their number. A signal handler may call it.
int32_t last_launches(const char** names, int32_t most);

}  // namespace gabbro::gpu
