#include "apps/cli/bench_image_measure.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "apps/cli/terminal.h"
#include "src/backend/device.h"
#include "src/base/seconds_since.h"

namespace gabbro::cli {
namespace {

using pictures::PictureRequest;
using pictures::PictureResult;
using pictures::Pipeline;
using SteadyClock = std::chrono::steady_clock;

// Draws a picture and adds its times.
void time_picture(Pipeline& pipeline, PictureRequest& request, PictureTimes& times) {
  std::optional<SteadyClock::time_point> before;
  request.step_latents = false;
  request.on_step = [&](const pictures::PictureStep&) {
    const auto now = SteadyClock::now();
    if (before) times.step.push_back(std::chrono::duration<double>(now - *before).count());
    before = now;
  };
  const auto started = SteadyClock::now();
  const PictureResult result = pipeline.generate(request);
  times.picture.push_back(seconds_since(started));
  times.text.push_back(result.text_seconds);
  times.decode.push_back(result.decode_seconds);
  times.evaluations = result.evaluations;
  if (result.evaluations == 1) times.step.push_back(result.denoise_seconds);
}

// Bytes of the heap that are allocated, mapped blocks included.
uint64_t host_bytes() {
  const struct mallinfo2 facts = ::mallinfo2();
  return facts.uordblks + facts.hblkhd;
}

std::optional<uint64_t> device_bytes(const Pipeline& pipeline) {
  if (!pipeline.device().counts_memory()) return std::nullopt;
  return pipeline.device().memory(abi::MemoryKind::kDevice).reserved;
}

// The requests of a round: each sampler at another size, of the request's and 3/4 and 1/2 of it.
std::vector<PictureRequest> round_of(const Pipeline& pipeline, const PictureRequest& request) {
  const pictures::PipelineFacts& facts = pipeline.facts();
  const int64_t width = request.width > 0 ? request.width : facts.width;
  const int64_t height = request.height > 0 ? request.height : facts.height;
  const auto part = [&](int64_t side, int64_t quarters) {
    const int64_t multiple = facts.size_multiple;
    return std::max(multiple, side * quarters / 4 / multiple * multiple);
  };
  constexpr const char* kSamplers[] = {"euler", "dpmpp_2m", "euler_a", "ddim", "unipc", "heun", "dpmpp_sde"};
  std::vector<PictureRequest> all;
  for (const char* const sampler : kSamplers) {
    PictureRequest& next = all.emplace_back(request);
    const auto number = static_cast<int64_t>(all.size());
    next.sampler = sampler;
    next.width = part(width, 4 - number % 3);
    next.height = part(height, 4 - (number + number / 3) % 3);
    next.seed = request.seed + all.size();
  }
  return all;
}

}  // namespace

Spread spread_of(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::ranges::sort(seconds);
  const size_t middle = seconds.size() / 2;
  const double median = seconds.size() % 2 != 0 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return {.median = median, .least = seconds.front(), .most = seconds.back()};
}

PictureTimes measure_pictures(Pipeline& pipeline, PictureRequest request, int repetitions) {
  PictureTimes times, first;
  time_picture(pipeline, request, first);
  times.first = first.picture.front();
  for (int i = 0; i < repetitions; ++i) {
    for (request.position = 0; request.position < request.batch; ++request.position)
      time_picture(pipeline, request, times);
  }
  return times;
}

bool SoakResult::is_flat() const {
  const auto flat = [](uint64_t before, uint64_t after) {
    return static_cast<double>(after) <= 1.01 * static_cast<double>(before);
  };
  return flat(host_before, host_after) && (!device_before || flat(*device_before, *device_after));
}

SoakResult soak(Pipeline& pipeline, const PictureRequest& request, double seconds) {
  constexpr int64_t kLeastRounds = 3;
  const std::vector<PictureRequest> requests = round_of(pipeline, request);
  std::vector<std::vector<uint8_t>> first;
  SoakResult result;
  const auto started = SteadyClock::now();
  while (result.rounds < kLeastRounds || result.seconds < seconds) {
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<uint8_t> pixels = pipeline.generate(requests[i]).picture.pixels;
      ++result.pictures;
      if (result.rounds == 0) {
        first.push_back(std::move(pixels));
      } else if (pixels != first[i]) {
        ++result.differing;
      }
    }
    ++result.rounds;
    result.seconds = seconds_since(started);
    result.host_after = host_bytes();
    result.device_after = device_bytes(pipeline);
    if (result.rounds == 2) {
      result.host_before = result.host_after;
      result.device_before = result.device_after;
    }
    say(fmt::format("gabbro: {} pictures in {:.0f} s, {} of the host{}\n", result.pictures, result.seconds,
                    human_bytes(result.host_after),
                    result.device_after ? fmt::format(", {} of the device", human_bytes(*result.device_after)) : ""));
  }
  return result;
}

}  // namespace gabbro::cli
