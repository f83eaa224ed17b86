// Progress of a picture on the terminal: a bar with the time left, or the picture itself in colored blocks.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "apps/cli/terminal.h"
#include "src/pictures/pipeline.h"

namespace gabbro::cli {

class ImageProgress {
 public:
  // `preview`: draws the picture too, where standard error is a terminal.
  ImageProgress(const pictures::Pipeline& pipeline, bool preview, int64_t number, int64_t count);
  ~ImageProgress();
  ImageProgress(const ImageProgress&) = delete;
  ImageProgress& operator=(const ImageProgress&) = delete;

  void show(const pictures::PictureStep& step);

 private:
  const pictures::Pipeline& pipeline_;
  std::optional<ProgressBar> bar_;
  int64_t lines_ = 0;  // of the preview that is on the terminal
};

// Lines of half blocks in 24-bit colors, two pixels a character: `columns` wide at most.
std::string draw_blocks(const images::Picture& picture, int64_t columns);

}  // namespace gabbro::cli
