// The text that A1111 writes into its pictures: prompt, negative prompt, and a line of settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gabbro::pictures {

struct PictureText {
  std::string prompt, negative;
  std::vector<std::pair<std::string, std::string>> settings{};  // ("Steps", "20"), in their order

  const std::string* setting(std::string_view name) const;  // null: there is none
};

// The text under the keyword "parameters".
std::string write_picture_text(const PictureText& text);

// Any text: without a line of three settings at its end it is all prompt.
PictureText read_picture_text(std::string_view text);

}  // namespace gabbro::pictures
