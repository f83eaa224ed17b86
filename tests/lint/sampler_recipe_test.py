#!/usr/bin/env python3
"""Adds a sampler step to a copy of the tree as docs/recipes/sampler_step.md says: it touches the files that the recipe lists
and no others; the command line, the server and a worker's messages take its option, and rows that use it are the host's.

    sampler_recipe_test.py BUILD

BUILD is a build folder with tests. Files that use SamplerOptions are compiled, and linked with the libraries that are in it.
"""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from recipe_files import RecipeFiles, insert, recipe  # noqa: E402

OPTIONS, STEP, TEST = "include/gabbro/sampling_options.h", "src/engine/sampling/truncation.cc", "src/engine/sampler_test.cc"

MEMBER = """
  float top_n_sigma = 0.0f;  // 0: off (Tang et al. 2024)"""
ROW = """
    {.name = "top_n_sigma",
     .number = &SamplerOptions::top_n_sigma,
     .least = 0,
     .most = 100,
     .help = "Drop tokens whose logit is more than X standard deviations below the largest; 0: off"},"""
FUNCTION = """

void top_n_sigma(Candidates& candidates, float n) {
  double sum = 0, squares = 0;
  for (const Candidate& c : candidates.items) {
    sum += double(c.logit);
    squares += double(c.logit) * double(c.logit);
  }
  const double count = static_cast<double>(candidates.items.size()), mean = sum / count;
  const double least = double(candidates.max_logit()) - double(n) * std::sqrt(std::max(0.0, squares / count - mean * mean));
  std::erase_if(candidates.items, [&](const Candidate& c) { return double(c.logit) < least; });
}
"""
LINE = """
    {.is_on = [](const SamplerOptions& o) { return o.top_n_sigma > 0; },
     .apply = [](Candidates& c, const SamplerOptions& o, Draws&) { top_n_sigma(c, o.top_n_sigma); }},"""
CASE = """

TEST(SamplerSteps, TopNSigmaDropsLogitsFarBelowTheLargest) {
  // The standard deviation is 4: logits of at least 9 - 4 stay.
  SamplerOptions options{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .top_n_sigma = 1, .seed = 3};
  Sampler sampler(options, 4);
  std::set<int32_t> drawn;
  for (int i = 0; i < 400; ++i) drawn.insert(sampler.sample(std::vector<float>{9, 8.9f, 0.9f, 1}));
  EXPECT_EQ(drawn, (std::set<int32_t>{0, 1}));
}
"""

# Reads the option as each of its readers does.
PROGRAM = """\
#include <cstdio>

#include "apps/cli/argument_parser.h"
#include "apps/cli/command_spec.h"
#include "apps/cli/options.h"
#include "src/engine/sampling/row.h"
#include "src/engine/worker/messages.h"
#include "src/server/answer/sampling_fields.h"

using namespace gabbro;

int main(int, char** words) {
  cli::CommandSpec command;
  cli::GenerationOptions options;
  cli::add_sampling_options(cli::Command(&command), options);
  cli::parse_arguments(command, {words[1]});
  const SamplerOptions& given = options.generate.sampler;
  std::printf("command line %g\\n", double(given.top_n_sigma));
  std::printf("on device %d %d\\n", sampling::can_sample_on_device(given), sampling::can_sample_on_device(SamplerOptions()));

  const worker::Add sent{.ticket = 1, .request = {.prompt = {1}, .options = {.sampler = given}}};
  worker::MessageReader reader;
  reader.feed(worker::encode(sent));
  const worker::Message received = reader.next().value();
  std::printf("worker %g\\n", double(std::get<worker::Add>(received).request.options.sampler.top_n_sigma));

  const server::Json object = {{"top_n_sigma", 2.5}};
  int64_t context = 0;
  const GenerateOptions request = server::read_ollama_options(server::Fields(object), server::LoadedModel(), context);
  std::printf("server %g\\n", double(request.sampler.top_n_sigma));
  return 0;
}
"""
SOURCES = [STEP, TEST, "src/engine/sampler.cc", "src/engine/sampling/row.cc", "src/engine/sampling/penalties.cc"]
READERS = ["apps/cli/options.cc", "src/server/answer/sampling_fields.cc", "src/engine/worker/messages.cc"]


class SamplerRecipe(RecipeFiles, unittest.TestCase):
    page, name, most_files = "docs/recipes/sampler_step.md", "sampler", 3

    @classmethod
    def add(cls, tree):
        insert(tree, OPTIONS, "1: off (Meister et al. 2022)", MEMBER)
        insert(tree, OPTIONS, '.help = "Locally typical sampling; 1: off",\n     .placeholder = "P",\n     .alias = "typical"},', ROW)
        insert(tree, STEP, "namespace gabbro::sampling {", FUNCTION)
        insert(tree, STEP, "constexpr Truncation kTruncations[] = {", LINE)
        insert(tree, TEST, "constexpr float kInf = std::numeric_limits<float>::infinity();", CASE)
        return [OPTIONS, STEP, TEST]

    def test_its_test_passes(self):
        program = self.folder / "sampler_tests"
        objects = self.builds.compile(SOURCES, "engine_test", precompiled=False)
        self.builds.link("tests/engine_test", objects, lambda path: False, program)
        output = recipe.run([program, "--gtest_filter=Sampler*"])
        self.assertIn("TopNSigmaDropsLogitsFarBelowTheLargest", output)
        self.assertNotIn("FAILED", output)

    def test_all_readers_know_its_option(self):
        (self.tree / "program.cc").write_text(PROGRAM, encoding="utf-8")
        objects = self.builds.compile(["program.cc", *READERS, *(s for s in SOURCES if s != TEST)], "gabbro", precompiled=False)
        program = self.folder / "readers"
        self.builds.link("bin/gabbro", objects, lambda path: True, program)
        output = recipe.run([program, "--top-n-sigma=1.5"])
        self.assertEqual(output, "command line 1.5\non device 0 1\nworker 1.5\nserver 2.5\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    SamplerRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
