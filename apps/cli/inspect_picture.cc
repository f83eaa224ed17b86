#include "apps/cli/inspect_picture.h"

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/cli/terminal.h"
#include "src/base/error.h"
#include "src/images/jpeg.h"
#include "src/images/png.h"
#include "src/images/read_picture.h"
#include "src/pictures/comfy_graph.h"

namespace gabbro::cli {
namespace {

// The prompt and settings that a text has of how the picture was made; nothing for other texts, and for graphs that are
// not plain.
std::optional<pictures::PictureText> settings_of(const images::Picture& picture, const std::string& path) {
  for (const auto& [keyword, text] : picture.texts) {
    if (keyword == "parameters") return pictures::read_picture_text(text);
    if (keyword != "prompt") continue;
    try {
      return pictures::read_comfy_graph(text, path);
    } catch (const Error& error) {
      report("note", error.what());
    }
  }
  return std::nullopt;
}

}  // namespace

bool is_picture_file(const std::string& path) {
  std::array<char, 8> start{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(start.data(), start.size())) return false;
  const std::span bytes = std::as_bytes(std::span(start));
  return images::is_png(bytes) || images::is_jpeg(bytes);
}

void inspect_picture(const std::string& path, bool json) {
  const images::Picture picture = images::read_picture(path);
  const std::optional<pictures::PictureText> made = settings_of(picture, path);
  if (json) {
    nlohmann::ordered_json document = {
        {"file", path}, {"width", picture.width}, {"height", picture.height}, {"channels", picture.channels}};
    document["texts"] = nlohmann::ordered_json::object();
    for (const auto& [keyword, text] : picture.texts) document["texts"][keyword] = text;
    if (made) {
      document["prompt"] = made->prompt;
      document["negative"] = made->negative;
      document["settings"] = nlohmann::ordered_json::object();
      for (const auto& [key, value] : made->settings) document["settings"][key] = value;
    }
    return print_json(document);
  }
  TextOutput output(TextOutput::Lines::kAsTheyAre);
  constexpr const char* kKinds[] = {"", "gray", "", "RGB", "RGBA"};
  output.write(fmt::format("{}: {} x {} pixels, {}\n", path, picture.width, picture.height, kKinds[picture.channels]));
  if (made) {
    output.write("prompt: " + made->prompt + "\n");
    if (!made->negative.empty()) output.write("negative: " + made->negative + "\n");
    for (const auto& [key, value] : made->settings) output.write(fmt::format("{}: {}\n", key, value));
  }
  for (const auto& [keyword, text] : picture.texts) {
    if (!made || (keyword != "parameters" && keyword != "prompt")) output.write(fmt::format("{}: {}\n", keyword, text));
  }
  output.finish();
}

}  // namespace gabbro::cli
