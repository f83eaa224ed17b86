#include "apps/cli/image_preview.h"

#include <unistd.h>

#include <algorithm>

namespace gabbro::cli {

std::string draw_blocks(const images::Picture& picture, int64_t columns) {
  const int64_t width = std::min(picture.width, columns);
  const int64_t height = std::max<int64_t>(1, picture.height * width / picture.width);
  const auto color = [&](int64_t x, int64_t y) {
    const int64_t row = std::min(y, height - 1) * picture.height / height, column = x * picture.width / width;
    const uint8_t* const rgb = &picture.pixels[static_cast<size_t>(3 * (row * picture.width + column))];
    return fmt::format("{};{};{}", rgb[0], rgb[1], rgb[2]);
  };
  std::string text;
  for (int64_t y = 0; y < height; y += 2) {
    for (int64_t x = 0; x < width; ++x)
      text += fmt::format("\x1b[38;2;{}m\x1b[48;2;{}m\u2580", color(x, y), color(x, y + 1));
    text += "\x1b[0m\n";
  }
  return text;
}

ImageProgress::ImageProgress(const pictures::Pipeline& pipeline, bool preview, int64_t number, int64_t count)
    : pipeline_(pipeline) {
  const std::string label = count == 1 ? "drawing" : fmt::format("drawing {} of {}", number + 1, count);
  if (!preview || !is_terminal(STDERR_FILENO)) bar_.emplace(label, true);
}

ImageProgress::~ImageProgress() = default;

void ImageProgress::show(const pictures::PictureStep& step) {
  if (bar_) return bar_->show(static_cast<double>(step.step) / static_cast<double>(step.steps));
  const std::string blocks = draw_blocks(pipeline_.preview(step), 64);
  const std::string back = lines_ > 0 ? fmt::format("\x1b[{}A", lines_) : "";
  say(back + blocks);
  lines_ = std::ranges::count(blocks, '\n');
}

}  // namespace gabbro::cli
