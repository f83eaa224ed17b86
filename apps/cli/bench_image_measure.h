// Times of pictures, and the memory that many of them leave behind: for `bench image`.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/pictures/pipeline.h"

namespace gabbro::cli {

// Seconds.
struct PictureTimes {
  std::vector<double> text;  // of each picture, as the next three
  std::vector<double> decode;
  std::vector<double> picture;  // all of it
  std::vector<double> step;     // from one call of the U-Net to the next, upload and sampler included
  double first = 0;             // of the picture before, which makes plans and loads kernels
  int64_t evaluations = 0;      // calls of the U-Net for one picture
};

struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread_of(std::vector<double> seconds);

// Draws one picture that is not counted, then `repetitions` times the batch of the request.
PictureTimes measure_pictures(pictures::Pipeline& pipeline, pictures::PictureRequest request, int repetitions);

struct SoakResult {
  int64_t pictures = 0, rounds = 0;
  int64_t differing = 0;  // pictures that differ from the first round's of the same request
  double seconds = 0;
  // In use after the second round, when all plans were made twice, and after the last one.
  uint64_t host_before = 0, host_after = 0;
  std::optional<uint64_t> device_before{}, device_after{};  // none: the device does not count

  bool is_flat() const;  // nothing grew by more than 1 %
};

// Draws pictures of changing sizes and samplers, in rounds of the same requests, until the time is over, and at least
// three rounds; says after each round how it stands. Throws as Pipeline::generate().
SoakResult soak(pictures::Pipeline& pipeline, const pictures::PictureRequest& request, double seconds);

}  // namespace gabbro::cli
