// The tokenizer of CLIP (Radford et al. 2021) from vocab.json and merges.txt, as folders of diffusion models have it.
#pragma once

#include <string>
#include <string_view>

#include "src/text/readers/tokenizer_spec.h"

namespace gabbro::text {

struct ClipVocabularyFiles {
  std::string folder;  // for messages
  std::string vocab_json, merges_txt;
};

// Token for token what transformers' CLIPTokenizer gives: text in lower case, single digits, "</w>" at the end of
// words. Throws bad_input that names the file: no JSON, or no <|startoftext|> or <|endoftext|> in it.
TokenizerSpec read_clip_vocabulary(const ClipVocabularyFiles& files);

}  // namespace gabbro::text
