// Any bytes as the text of a picture, as a graph of ComfyUI, and as a prompt: an Error of one line, or parts of the
// text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "src/base/error.h"
#include "src/pictures/comfy_graph.h"
#include "src/pictures/picture_text.h"
#include "src/pictures/prompts/weighted_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gabbro::pictures;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const PictureText read = read_picture_text(text);
  if (read.prompt.size() + read.negative.size() > size) std::abort();
  read_picture_text(write_picture_text(read));
  try {
    read_comfy_graph(text, "x");
  } catch (const gabbro::Error& error) {
    if (std::strchr(error.what(), '\n') != nullptr) std::abort();
  }
  for (const PromptSyntax syntax : {PromptSyntax::kPlain, PromptSyntax::kA1111, PromptSyntax::kComfyUi}) {
    size_t length = 0;
    for (const WeightedText& part : parse_prompt(text, syntax)) length += part.text.size();
    if (length > size) std::abort();  // parts are text of the prompt
  }
  return 0;
}
