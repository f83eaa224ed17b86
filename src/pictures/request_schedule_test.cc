// The steps of a request by the rules of each program.
#include "src/pictures/request_schedule.h"

#include <gtest/gtest.h>

#include "gabbro/error.h"

namespace gabbro::pictures {
namespace {

SchedulerConfig scheduler_of(const char* sampler) {
  SchedulerConfig config;
  config.sampler = &find_sampler(sampler);
  config.schedule.style = config.sampler->style;
  return config;
}

std::vector<double> ratios(const Schedule& schedule) {
  std::vector<double> all;
  for (const NoiseLevel& level : schedule.levels) all.push_back(level.ratio);
  all.push_back(schedule.targets.back().ratio);
  return all;
}

void expect_ratios(const Schedule& schedule, const std::vector<double>& expected, double tolerance = 1e-6) {
  const std::vector<double> actual = ratios(schedule);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, expected[i]));
  }
}

// k-diffusion's numbers for the schedule of Stable Diffusion, four steps, with a table in f64. The programs' table is
// f32, whose least ratio is 1.5e-5 larger: 1 - 0.99915 has four digits less.
TEST(RequestSchedule, of_comfyui_begins_with_all_of_the_noise) {
  const Schedule karras =
      schedule_of({.steps = 4, .schedule = "karras", .like = Program::kComfyUi}, scheduler_of("euler"));
  expect_ratios(karras, {14.614641, 3.168603, 0.446918, 0.029167, 0}, 5e-6);
  EXPECT_EQ(karras.start_scale, 1);
  for (const NoiseLevel& level : karras.levels) EXPECT_EQ(level.timestep, std::nearbyint(level.timestep));
  const Schedule a1111 =
      schedule_of({.steps = 4, .schedule = "karras", .like = Program::kA1111}, scheduler_of("euler"));
  // sigma / sqrt(1 + sigma²)
  EXPECT_NEAR(a1111.start_scale, 14.614641 / std::sqrt(1 + 14.614641 * 14.614641), 1e-7);
  EXPECT_NE(a1111.levels[1].timestep, std::nearbyint(a1111.levels[1].timestep));
}

TEST(RequestSchedule, of_a_strength_has_the_steps_of_its_program) {
  const auto steps = [](Program like, double strength, int64_t count) {
    return schedule_of({.steps = count, .schedule = "karras", .like = like, .strength = strength},
                       scheduler_of("euler"));
  };
  EXPECT_EQ(steps(Program::kDiffusers, 0.75, 10).steps(), 7u);  // int(7.5)
  EXPECT_EQ(steps(Program::kGabbro, 0.75, 10).steps(), 7u);
  EXPECT_EQ(steps(Program::kA1111, 0.75, 10).steps(), 8u);  // int(7.5) + 1
  EXPECT_EQ(steps(Program::kComfyUi, 0.75, 10).steps(), 10u);
  // Four steps of the end: of 4 of 8, of 5 of 8, and of 4 / 0.5.
  const Schedule whole = steps(Program::kGabbro, 1, 8);
  const std::vector<double> all = ratios(whole);
  expect_ratios(steps(Program::kDiffusers, 0.5, 8), {all.end() - 5, all.end()});
  expect_ratios(steps(Program::kA1111, 0.5, 8), {all.end() - 6, all.end()});
  expect_ratios(steps(Program::kComfyUi, 0.5, 4), {all.end() - 5, all.end()});
  EXPECT_EQ(steps(Program::kA1111, 0.999, 8).steps(), 8u);
  EXPECT_EQ(steps(Program::kA1111, 0.01, 8).steps(), 1u);
  EXPECT_THROW(steps(Program::kDiffusers, 0.1, 8), Error);
  EXPECT_EQ(steps(Program::kDiffusers, 0.125, 8).steps(), 1u);
}

TEST(RequestSchedule, of_unipc_in_comfyui_leaves_out_the_last_sigma_but_one) {
  const std::vector<double> six = ratios(schedule_of({.steps = 6, .schedule = "normal"}, scheduler_of("unipc")));
  std::vector<double> expected(six.begin(), six.end() - 2);
  expected.push_back(0);
  expect_ratios(schedule_of({.steps = 5, .schedule = "normal", .like = Program::kComfyUi}, scheduler_of("unipc")),
                expected);
}

TEST(ProgramRules, have_the_names_and_defaults_of_the_programs) {
  EXPECT_EQ(find_program(""), Program::kGabbro);
  EXPECT_EQ(find_program("comfyui"), Program::kComfyUi);
  EXPECT_THROW(find_program("other"), Error);
  EXPECT_EQ(rules_of(Program::kDiffusers).syntax, PromptSyntax::kPlain);
  EXPECT_EQ(rules_of(find_program("a1111")).noise, NoiseKind::kNv);
  EXPECT_EQ(default_sampler(Program::kA1111), "dpmpp_2m");
  EXPECT_EQ(default_sampler(find_program("diffusers")), "");
  // A1111's "Automatic".
  EXPECT_EQ(default_schedule(Program::kA1111, "dpmpp_2m"), "karras");
  EXPECT_EQ(default_schedule(Program::kA1111, "dpmpp_2m_sde"), "exponential");
  EXPECT_EQ(default_schedule(Program::kA1111, "euler"), "normal");
  EXPECT_EQ(default_schedule(Program::kA1111, "ddim"), "");
  EXPECT_EQ(default_schedule(Program::kComfyUi, "euler_a"), "normal");
  EXPECT_EQ(default_schedule(Program::kDiffusers, "euler"), "");
}

}  // namespace
}  // namespace gabbro::pictures
