#include "src/images/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "src/base/error.h"

namespace gabbro::images {
namespace {

constexpr int kWeightBits = 22;  // 32 less 8 of a pixel and 2 for the sum of weights
constexpr double kLobes = 3;

double lanczos(double x) {
  const auto sinc = [](double at) { return at == 0 ? 1.0 : std::sin(at * std::numbers::pi) / (at * std::numbers::pi); };
  return std::abs(x) < kLobes ? sinc(x) * sinc(x / kLobes) : 0;
}

// The inputs of one output and their weights in fixed point.
struct Window {
  int64_t first = 0;
  std::vector<int64_t> weights;
};

std::vector<Window> windows(int64_t in, int64_t out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), stretch = std::max(scale, 1.0);
  const double support = kLobes * stretch;
  std::vector<Window> all(static_cast<size_t>(out));
  for (size_t i = 0; i < all.size(); ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const auto last = std::min(in, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0;
    for (int64_t k = first; k < last; ++k) {
      weights.push_back(lanczos((static_cast<double>(k) - center + 0.5) / stretch));
      sum += weights.back();
    }
    all[i].first = first;
    for (const double weight : weights) {
      const double fixed = weight / sum * (1 << kWeightBits);
      all[i].weights.push_back(static_cast<int64_t>(fixed + (fixed < 0 ? -0.5 : 0.5)));
    }
  }
  return all;
}

uint8_t to_pixel(int64_t sum) { return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kWeightBits, 0, 255)); }

// A line of `count` pixels that are `stride` bytes apart.
struct Line {
  size_t at, stride;
};

void resize_line(const Picture& from, Line in, Picture& to, Line out, const std::vector<Window>& to_windows) {
  for (size_t i = 0; i < to_windows.size(); ++i) {
    const Window& window = to_windows[i];
    int64_t sum = int64_t{1} << (kWeightBits - 1);
    size_t at = in.at + static_cast<size_t>(window.first) * in.stride;
    for (const int64_t weight : window.weights) {
      sum += weight * from.pixels[at];
      at += in.stride;
    }
    to.pixels[out.at + i * out.stride] = to_pixel(sum);
  }
}

Picture blank(const Picture& like, int64_t width, int64_t height) {
  Picture picture{.width = width, .height = height, .channels = like.channels, .texts = like.texts};
  picture.pixels.resize(picture.size());
  return picture;
}

// A box of 2 · radius + 1 pixels whose two outer ones count by a fraction; edges are repeated (ImagingBoxBlur).
void blur_line(std::vector<uint8_t>& pixels, Line line, size_t count, double radius) {
  const auto whole = static_cast<int64_t>(radius);
  const auto weight = static_cast<uint32_t>((1 << 24) / (radius * 2 + 1));
  const uint32_t outer = ((1u << 24) - static_cast<uint32_t>(whole * 2 + 1) * weight) / 2;
  std::vector<uint32_t> in(count);
  for (size_t i = 0; i < count; ++i) in[i] = pixels[line.at + i * line.stride];
  const auto at = [&](int64_t i) { return in[static_cast<size_t>(std::clamp<int64_t>(i, 0, std::ssize(in) - 1))]; };
  uint32_t sum = 0;
  for (int64_t k = -whole; k <= whole; ++k) sum += at(k);
  for (int64_t i = 0; i < std::ssize(in); ++i) {
    if (i > 0) sum += at(i + whole) - at(i - whole - 1);
    const uint32_t total = sum * weight + (at(i - whole - 1) + at(i + whole + 1)) * outer;
    pixels[line.at + static_cast<size_t>(i) * line.stride] = static_cast<uint8_t>((total + (1u << 23)) >> 24);
  }
}

}  // namespace

Picture resize_lanczos(const Picture& picture, int64_t width, int64_t height) {
  if (width < 1 || height < 1) throw bad_input("a picture of {} x {} pixels", width, height);
  const auto channels = static_cast<size_t>(picture.channels);
  Picture wide = picture;
  if (width != picture.width) {
    wide = blank(picture, width, picture.height);
    const std::vector<Window> columns = windows(picture.width, width);
    for (size_t y = 0; y < static_cast<size_t>(picture.height); ++y) {
      const size_t from = y * static_cast<size_t>(picture.width) * channels;
      const size_t to = y * static_cast<size_t>(width) * channels;
      for (size_t c = 0; c < channels; ++c)
        resize_line(picture, {from + c, channels}, wide, {to + c, channels}, columns);
    }
  }
  if (height == picture.height) return wide;
  Picture result = blank(picture, width, height);
  const std::vector<Window> rows = windows(picture.height, height);
  const size_t stride = static_cast<size_t>(width) * channels;
  for (size_t x = 0; x < stride; ++x) resize_line(wide, {x, stride}, result, {x, stride}, rows);
  return result;
}

Picture blur_gaussian(const Picture& gray, double radius) {
  if (gray.channels != 1) throw bad_input("a blur of {} channels", gray.channels);
  if (!(radius > 0)) return gray;
  // The radius of three boxes with the variance of a Gaussian (Kovesi 2010), with a fraction at its ends.
  constexpr int kPasses = 3;
  const double length = std::sqrt(12 * radius * radius / kPasses + 1), whole = std::floor((length - 1) / 2);
  const double variance = radius * radius / kPasses, odd = 2 * whole + 1;
  const double fraction = odd * (whole * (whole + 1) - 3 * variance) / (6 * (variance - (whole + 1) * (whole + 1)));
  const double box = static_cast<double>(static_cast<float>(whole + fraction));
  Picture blurred = gray;
  const auto width = static_cast<size_t>(gray.width), height = static_cast<size_t>(gray.height);
  for (int pass = 0; pass < kPasses; ++pass) {
    for (size_t y = 0; y < height; ++y) blur_line(blurred.pixels, {y * width, 1}, width, box);
  }
  for (int pass = 0; pass < kPasses; ++pass) {
    for (size_t x = 0; x < width; ++x) blur_line(blurred.pixels, {x, width}, height, box);
  }
  return blurred;
}

}  // namespace gabbro::images
