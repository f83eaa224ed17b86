// Files of textual inversion (Gal et al. 2022): vectors that stand for a word of a prompt.
#pragma once

#include <string>
#include <vector>

#include "src/pictures/prompts/prompt_tokens.h"

namespace gabbro::pictures {

// Each as [NAME=]FILE: a safetensors file with one matrix [vectors, width], as A1111 ("emb_params"), ComfyUI ("clip_l")
// and diffusers (the word itself) write it. Files for SDXL have a matrix for each text encoder, and `encoder` is the
// name of the wanted one ("clip_l" or "clip_g"). The name is that of the file where none is given. Throws bad_input
// that names the file: another width, or a pickle.
Embeddings read_embeddings(const std::vector<std::string>& files, int64_t width, const char* encoder = "clip_l");

}  // namespace gabbro::pictures
