#include "apps/cli/picture_parts.h"

#include "src/base/error.h"

namespace gabbro::cli {

void add_picture_parts(Command command, pictures::GivenParts& given) {
  command.option("--vae", given.autoencoder, "Of a pipeline of pictures: a file or folder whose autoencoder is used")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command
      .option("--text-encoder", given.text_encoders,
              "Of a pipeline of pictures: a file or folder whose text encoder is used; twice for SDXL")
      .placeholder("FILE")
      .file(FileUse::kInput);
  command
      .option("--tokenizer", given.tokenizers,
              "Of a pipeline of pictures: folder with vocab.json and merges.txt, which single files do not have")
      .placeholder("FOLDER")
      .file(FileUse::kInput);
}

void refuse_picture_parts(const pictures::GivenParts& given) {
  for (const auto& [is_given, option] : {std::pair(!given.autoencoder.empty(), "--vae"),
                                         {!given.text_encoders.empty(), "--text-encoder"},
                                         {!given.tokenizers.empty(), "--tokenizer"}}) {
    if (is_given) throw bad_input("{} is for pipelines of pictures only", option);
  }
}

void refuse_for_pictures(const std::vector<std::pair<bool, const char*>>& options) {
  for (const auto& [is_given, option] : options) {
    if (is_given) throw bad_input("{} is not for pipelines of pictures", option);
  }
}

}  // namespace gabbro::cli
