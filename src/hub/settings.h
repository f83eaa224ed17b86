// The Hub's address, token and cache, by the environment variables of huggingface_hub.
#pragma once

#include <string>

namespace gabbro::hub {

struct Settings {
  std::string cache;         // folder of the cache; empty where no variable gives a home
  std::string endpoint;      // "https://huggingface.co", without a slash at the end
  std::string token;         // empty: none
  std::string token_source;  // "HF_TOKEN", or the file it was read from
  bool offline = false;
  long stall_seconds = 30;  // a transfer that is slower than 1 KiB/s for this long is broken
};

// HF_HUB_CACHE (or HUGGINGFACE_HUB_CACHE), else hub/ in HF_HOME, else in $XDG_CACHE_HOME/huggingface or
// ~/.cache/huggingface. Empty where none of these is set.
std::string cache_folder();

// Adds HF_ENDPOINT, HF_TOKEN or the token's file (HF_TOKEN_PATH, HF_HOME/token), HF_HUB_OFFLINE and
// HF_HUB_DOWNLOAD_TIMEOUT. Throws bad_input for an endpoint that is not an address, a token with other characters than
// tokens have, and a time that is not a number of seconds.
Settings read_settings();

// The value of an environment variable; empty where it is not set.
std::string variable(const char* name);

// "~/x" and "$NAME/x" with the home folder and the variables' values.
std::string expand_path(const std::string& path);

}  // namespace gabbro::hub
