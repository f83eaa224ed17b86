// The steps of decoders (decoder.h).
#pragma once

#include <string>

#include "src/text/pipeline/decoder.h"
#include "src/text/regex/text_pattern.h"

namespace gabbro::text {

std::unique_ptr<DecodeStage> make_join_with_spaces();
std::unique_ptr<DecodeStage> make_byte_level_decoder();
std::unique_ptr<DecodeStage> make_word_piece_decoder(const std::string& prefix, bool cleanup);
std::unique_ptr<DecodeStage> make_metaspace_decoder(const std::string& replacement, bool drops_first);
std::unique_ptr<DecodeStage> make_bpe_decoder(const std::string& suffix);
std::unique_ptr<DecodeStage> make_ctc_decoder(const std::string& pad_token, const std::string& delimiter, bool cleanup);
std::unique_ptr<DecodeStage> make_byte_fallback_decoder();
std::unique_ptr<DecodeStage> make_fuse_decoder();
std::unique_ptr<DecodeStage> make_strip_decoder(const std::string& content, size_t start, size_t stop);
std::unique_ptr<DecodeStage> make_replace_decoder(const TextPattern& pattern, const std::string& content);

// The byte of a token <0xXX>, or -1.
int byte_of_token(std::string_view token);

}  // namespace gabbro::text
