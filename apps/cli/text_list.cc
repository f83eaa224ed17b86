#include "apps/cli/text_list.h"

#include "apps/cli/source_layers.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_files.h"
#include "src/backend/missing_device.h"
#include "src/base/error.h"
#include "src/base/text_file.h"
#include "src/formats/checkpoint.h"
#include "src/hub/model_cache.h"

namespace gabbro::cli {
namespace {

void add_lines(const std::string& text, std::vector<std::string>& lines) {
  for (const std::string_view line : split_lines(text)) lines.emplace_back(line);
}

}  // namespace

void add_texts(Command command, TextList& texts, const std::string& name, const std::string& description) {
  command.option(name, texts.words, description + "; without them and --file standard input, one a line")
      .takes_text()
      .takes_rest();
  command.option("-f,--file", texts.file, "Read further ones from a file, one a line; -: standard input")
      .placeholder("FILE")
      .file(FileUse::kInput);
}

std::vector<std::string> read_texts(const TextList& texts) {
  std::vector<std::string> all = texts.words;
  if (!texts.file.empty()) {
    add_lines(read_input(texts.file), all);
  } else if (all.empty()) {
    add_lines(read_standard_input("it has one text a line"), all);
  }
  return all;
}

std::shared_ptr<TextEncoder> load_encoder(const std::string& model, const CommonOptions& common,
                                          const std::optional<std::string>& kv_type) {
  const auto [path, layers] = resolve_with_layers(model);
  if (layers != nullptr && !layers->adapters.empty())
    throw bad_input("{}: its adapter cannot be applied to a text encoder", layers->name);
  report_layers(layers);
  LoadOptions options = load_options(common, 0, kv_type);
  ProgressBar bar("loading", true);
  options.progress = [&](double share) { bar.show(share); };
  const auto encoder = TextEncoder::load(path, options);
  if (encoder->facts().device_id == "cpu" && common.device == "auto" && std::getenv("GABBRO_DEVICE") == nullptr) {
    if (const auto gpu = describe_unused_gpu()) report("note", *gpu + "; running on the CPU");
  }
  if (common.log_level != "error") {
    for (const std::string& warning : encoder->facts().warnings) report("warning", warning);
  }
  return encoder;
}

}  // namespace gabbro::cli
