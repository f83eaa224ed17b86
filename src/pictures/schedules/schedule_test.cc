// Timesteps and sigmas against diffusers' (tests/reference/make_schedule_fixtures.py), and by hand.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "gabbro/error.h"
#include "src/pictures/scheduler_config.h"
#include "src/pictures/schedules/spaced_sigmas.h"

namespace gabbro::pictures {
namespace {

std::shared_ptr<const NoiseTable> stable_diffusion(bool zero_snr = false) {
  return std::make_shared<NoiseTable>(NoiseTableOptions{.zero_terminal_snr = zero_snr});
}

// f32 tables of a thousand steps, whose products PyTorch and this code round alike.
constexpr double kRounding = 1e-6;

void expect_relative(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, kRounding * std::max(1.0, std::fabs(expected))) << what;
}

TEST(Schedule, equals_diffusers) {
  const auto rows = nlohmann::json::parse(std::ifstream(GABBRO_SOURCE_DIR "/tests/data/pictures/schedules.json"));
  std::set<std::string> classes;
  for (const auto& row : rows) {
    const Json config = row.at("config");
    const SchedulerConfig scheduler = read_scheduler_config(JsonNode(config, "config"));
    classes.insert(scheduler.class_name);
    for (const auto& expected : row.at("steps")) {
      const int64_t steps = expected.at("steps");
      const std::string what = config.dump() + ", " + std::to_string(steps) + " steps";
      const Schedule schedule = make_schedule(scheduler, steps);
      const std::vector<double> times = expected.at("timesteps"), sigmas = expected.at("sigmas");
      ASSERT_EQ(schedule.steps(), times.size()) << what;
      for (size_t i = 0; i < times.size(); ++i) {
        expect_relative(schedule.levels[i].timestep, times[i], what + ", timestep " + std::to_string(i));
        expect_relative(schedule.levels[i].ratio, sigmas[i], what + ", sigma " + std::to_string(i));
      }
      if (sigmas.size() > times.size())
        expect_relative(schedule.targets.back().ratio, sigmas.back(), what + ", the last sigma");
      expect_relative(schedule.start_scale, expected.at("scale"), what + ", scale");
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(classes.size(), 12u);
}

TEST(NoiseTable, has_the_published_levels) {
  const auto table = stable_diffusion();
  EXPECT_NEAR(table->alpha_bar(0), 0.99915, 1e-6);
  EXPECT_NEAR(table->alpha_bar(499), 0.27766965, 1e-6);
  EXPECT_NEAR(table->alpha_bar(999), 0.00466010, 1e-7);
  const std::pair<size_t, double> sigmas[] = {{0, 0.0291672},   {1, 0.0413144},   {249, 0.6932049},
                                              {499, 1.6128862}, {749, 4.0817294}, {999, 14.6146412}};
  for (const auto& [t, sigma] : sigmas) EXPECT_NEAR(table->sigma(t), sigma, 2e-6 * std::max(1.0, sigma)) << t;
  const auto zero = stable_diffusion(true);
  EXPECT_NEAR(zero->alpha_bar(499), 0.24235917, 1e-5);
  EXPECT_NEAR(zero->sigma(998), 2254.238, 2);  // the table's last alpha is a difference of rounded numbers
  EXPECT_TRUE(std::isinf(zero->sigma(999)));
}

// The table's f32 against the same formulas in f64: its smallest sigma differs by 1e-5.
constexpr double kTable = 1e-5;

TEST(NamedSchedule, has_the_check_values) {
  const std::pair<const char*, std::vector<double>> rows[] = {
      {"simple", {14.614641, 4.081729, 1.612886, 0.693205}},
      {"normal", {14.614641, 2.918307, 0.932358, 0.029167}},
      {"sgm_uniform", {14.614641, 4.086081, 1.615580, 0.695150}},
      {"ddim_uniform", {4.116696, 1.623692, 0.698398, 0.041314}},
      {"beta", {14.614641, 5.686591, 1.618279, 0.515391}},
      {"karras", {14.614641, 3.168603, 0.446918, 0.029167}},
      {"kl_optimal", {14.614641, 1.597066, 0.572914, 0.029167}},
      {"exponential", {14.614641, 3.088977, 0.652892, 0.137996, 0.029167}}};
  for (const auto& [name, expected] : rows) {
    const Schedule schedule = make_named_schedule(stable_diffusion(), name, std::ssize(expected));
    ASSERT_EQ(schedule.steps(), expected.size()) << name;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(schedule.levels[i].ratio, expected[i], kTable * std::max(1.0, expected[i])) << name << " " << i;
    EXPECT_EQ(schedule.targets.back().ratio, 0) << name;
  }
  EXPECT_THROW(make_named_schedule(stable_diffusion(), "other", 4), Error);
  EXPECT_THROW(make_named_schedule(stable_diffusion(), "karras", 0), Error);
  EXPECT_THROW(make_named_schedule(stable_diffusion(), "karras", 1001), Error);
}

TEST(BetaQuantile, inverts_the_distribution) {
  EXPECT_EQ(beta_quantile(0, 0.6, 0.6), 0);
  EXPECT_EQ(beta_quantile(1, 0.6, 0.6), 1);
  EXPECT_NEAR(beta_quantile(0.5, 0.6, 0.6), 0.5, 1e-12);
  EXPECT_NEAR(beta_quantile(0.3, 1, 1), 0.3, 1e-12);           // uniform
  EXPECT_NEAR(beta_quantile(0.25, 2, 1), 0.5, 1e-12);          // x^2
  EXPECT_NEAR(beta_quantile(1.0 / 3, 0.5, 0.5), 0.25, 1e-12);  // arcsine: sin(p·pi/2)^2
}

TEST(SchedulerConfig, refuses_what_is_not_built) {
  const auto refused = [](const char* text, const char* part) {
    const Json config = Json::parse(text);
    try {
      read_scheduler_config(JsonNode(config, "scheduler_config.json"));
      ADD_FAILURE() << "accepts " << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refused(R"({})", "_class_name");
  refused(R"({"_class_name": "Other"})", "'Other'");
  refused(R"({"_class_name": "DDIMScheduler", "thresholding": true})", "thresholding");
  refused(R"({"_class_name": "DDIMScheduler", "beta_schedule": "other"})", "beta_schedule");
  refused(R"({"_class_name": "DDIMScheduler", "beta_start": 0})", "beta");
  refused(R"({"_class_name": "DDIMScheduler", "num_train_timesteps": 0})", "num_train_timesteps");
  refused(R"({"_class_name": "DDIMScheduler", "prediction_type": "flow"})", "prediction_type");
  refused(R"({"_class_name": "DDIMScheduler", "rescale_betas_zero_snr": true})", "rescale_betas_zero_snr");
  refused(R"({"_class_name": "PNDMScheduler"})", "skip_prk_steps");
  refused(R"({"_class_name": "DPMSolverMultistepScheduler", "algorithm_type": "dpmsolver"})", "algorithm_type");
  refused(R"({"_class_name": "DPMSolverMultistepScheduler", "solver_order": 3})", "solver_order");
  refused(R"({"_class_name": "EulerDiscreteScheduler", "use_karras_sigmas": true, "use_beta_sigmas": true})", "two");
  refused(R"({"_class_name": "UniPCMultistepScheduler", "predict_x0": false})", "predict_x0");
}

}  // namespace
}  // namespace gabbro::pictures
