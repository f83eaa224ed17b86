// Samplers on a model whose pictures are unit Gaussian noise: of x = picture + ratio · noise it sees x / (1 + ratio²).
#include <gtest/gtest.h>

#include "gabbro/error.h"
#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {
namespace {

// The noise that is in x = alpha · picture + sigma · noise at its best guess: sigma · x.
SamplerModel gaussian_model(const NoiseTable& table, int* calls = nullptr) {
  SamplerModel model;
  model.call = [&table, calls](const Latent& x, double timestep) {
    if (calls != nullptr) ++*calls;
    const NoiseLevel level{.ratio = table.sigma_at(timestep)};
    return weighted_sum({{level.sigma(), x}});
  };
  return model;
}

struct NoNoise final : NoiseSource {
  std::vector<float> normal(size_t count) override { return std::vector<float>(count, 0.0f); }
};

std::shared_ptr<const NoiseTable> published_table() { return std::make_shared<NoiseTable>(NoiseTableOptions{}); }

// From x = the largest sigma, by Karras's sigmas.
double end_of(Latent (*sample)(Latent, const SamplerRun&), int64_t steps) {
  const Schedule schedule = make_named_schedule(published_table(), "karras", steps);
  SamplerModel model = gaussian_model(*schedule.table);
  // The exact answer at each ratio, which timesteps of the table give roughly.
  size_t call = 0;
  std::vector<double> ratios;
  for (size_t i = 0; i < schedule.steps(); ++i) {
    ratios.push_back(schedule.levels[i].ratio);
    if (sample == sample_heun && i + 1 < schedule.steps()) ratios.push_back(schedule.targets[i].ratio);
  }
  model.call = [&](const Latent& x, double) {
    const NoiseLevel level{.ratio = ratios.at(call++)};
    return weighted_sum({{level.sigma(), x}});
  };
  NoNoise noise;
  const NoiseLevel& first = schedule.levels.front();
  const Latent start{static_cast<float>(first.ratio * first.alpha())};
  return sample(start, {.schedule = schedule, .model = model, .noise = noise})[0];
}

TEST(Samplers, follow_the_formulas) {
  const struct {
    Latent (*sample)(Latent, const SamplerRun&);
    double of_4, of_10, of_20;
  } rows[] = {{sample_euler, 0.594884, 0.842572, 0.920723},
              {sample_heun, 1.656181, 1.053594, 1.009069},
              {sample_dpmpp_2m, 0.958061, 1.051804, 1.009600}};
  for (const auto& row : rows) {
    EXPECT_NEAR(end_of(row.sample, 4), row.of_4, 2e-6);
    EXPECT_NEAR(end_of(row.sample, 10), row.of_10, 2e-6);
    EXPECT_NEAR(end_of(row.sample, 20), row.of_20, 2e-6);
  }
}

TEST(Samplers, divide_ancestral_steps) {
  const AncestralStep step = ancestral_step(14.614641, 3.168603, 1);
  EXPECT_NEAR(step.down, 0.686985, 1e-6);
  EXPECT_NEAR(step.up, 3.093234, 1e-6);
  EXPECT_EQ(ancestral_step(1, 0.5, 0).down, 0.5);
}

// All of them, from noise to the model's pictures: the exact end is 0.997667 of the start.
TEST(Samplers, approach_the_exact_end) {
  for (const Sampler& sampler : samplers()) {
    // LCM's pictures are the model's guesses, as TCD's; DDPM loses deviation without noise.
    if (sampler.style == TimestepStyle::kConsistency || sampler.name == "ddpm") continue;
    const Schedule schedule = make_schedule(published_table(), {.style = sampler.style}, 200);
    int calls = 0;
    const SamplerModel model = gaussian_model(*schedule.table, &calls);
    NoNoise noise;
    SamplerOptions options{.eta = 0.0};
    const Latent end =
        sampler.run({1.0f, -0.5f}, {.schedule = schedule, .model = model, .noise = noise, .options = options});
    EXPECT_NEAR(end[0], 1.0, 0.03) << sampler.name;
    EXPECT_NEAR(end[1], -0.5, 0.015) << sampler.name;
    EXPECT_LE(calls, sampler.evaluations * 200 + 1) << sampler.name;
    EXPECT_GE(calls, 200) << sampler.name;
  }
}

// The three parametrizations are the same model: the ends are equal but for rounding.
TEST(Samplers, take_every_prediction) {
  const Schedule schedule = make_schedule(published_table(), {.style = TimestepStyle::kMultistep}, 10);
  std::vector<float> ends;
  for (const Prediction prediction : {Prediction::kNoise, Prediction::kVelocity, Prediction::kSample}) {
    SamplerModel model{.prediction = prediction};
    model.call = [&](const Latent& x, double timestep) {
      const NoiseLevel level{.ratio = schedule.table->sigma_at(timestep)};
      const double factor = prediction == Prediction::kNoise    ? level.sigma()
                            : prediction == Prediction::kSample ? level.alpha()
                                                                : 0;
      return weighted_sum({{factor, x}});
    };
    NoNoise noise;
    ends.push_back(sample_dpmpp_2m({1.0f}, {.schedule = schedule, .model = model, .noise = noise})[0]);
  }
  EXPECT_NEAR(ends[1], ends[0], 1e-4);
  EXPECT_NEAR(ends[2], ends[0], 1e-4);
}

TEST(Samplers, have_two_names) {
  EXPECT_EQ(find_sampler("DPM++ 2M").name, "dpmpp_2m");
  EXPECT_EQ(find_sampler("euler-a").name, "euler_a");
  EXPECT_EQ(find_sampler("PLMS").name, "pndm");
  EXPECT_THROW(find_sampler("dpm"), Error);
}

}  // namespace
}  // namespace gabbro::pictures
