#include "src/pictures/noise/batch_noise.h"

namespace gabbro::pictures {

BatchNoise::BatchNoise(const BatchNoiseOptions& options) : options_(options) {
  const size_t count = options.one_stream ? 1 : options.count;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t number = options.one_stream ? 0 : options.first + i;
    sources_.push_back(make_noise_source(options.kind, options.seed + number));
  }
}

std::vector<float> BatchNoise::normal(size_t numbers) {
  const size_t each = numbers / options_.count;
  if (options_.one_stream) {
    const std::vector<float> all = sources_[0]->normal(each * options_.pictures);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(options_.first * each);
    return {first, first + static_cast<std::ptrdiff_t>(numbers)};
  }
  std::vector<float> all;
  for (const auto& source : sources_) {
    const std::vector<float> own = source->normal(each);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<float> BatchNoise::normal_of_each(size_t numbers) {
  if (!options_.one_stream) return normal(numbers * options_.count);
  const std::vector<float> own = sources_[0]->normal(numbers);
  std::vector<float> all;
  for (size_t i = 0; i < options_.count; ++i) all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace gabbro::pictures
