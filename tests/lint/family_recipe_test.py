#!/usr/bin/env python3
"""Adds a model family with another graph to a copy of the registry as docs/recipes/model_family.md says: one file and the
registry's lines. A program that is linked with both forecasts its memory, as `fit` and `tune` do, and runs a model of random
weights of it, as `bench` does.

    family_recipe_test.py BUILD

BUILD is a build folder with the libraries. Three files are compiled, and linked with what is in it.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "lint"))
from op_recipe_test import Build, run  # noqa: E402

# Its mixer is a decaying mean of the tokens so far: a recurrence, and no attention.
FAMILY = """\
// A family of a test: each channel mixes tokens by a decaying sum.
#include "src/models/llm/decoder.h"
#include "src/models/llm/registry.h"

namespace gabbro::llm::fading {
namespace {

constexpr std::string_view kArchitectures[] = {"fading"};
constexpr WeightName kOwn[] = {{"blk.{}.ssm_a", "model.layers.{}.decay", true},
                               {"blk.{}.ssm_out", "model.layers.{}.out_proj"}};
constexpr auto kNames = with_names(kOwn, kDecoderNames);

class Fading : public TokenMixer {
 public:
  Fading(int64_t channels, const MixerPlace& at) : channels_(channels) {
    decay_ = at.weights.tensor(at.prefix + "ssm_a", {channels, 1});
    out_ = at.weights.linear(at.prefix + "ssm_out", {channels, channels});
  }
  nn::CacheLayer cache() const override {
    return {.kind = nn::CacheKind::kState, .states = {Shape{channels_, 1, 1}}};
  }
  Tensor operator()(const Tensor& h, const MixerStep& at) const override {
    const int64_t tokens = h.shape()[0];
    const Tensor ones = full(h.device(), Shape{tokens, 1, 1}, 1, DType::f32);
    const Recurrence sum = selective_scan({.x = reshape(h, Shape{tokens, channels_, 1}),
                                           .dt = full(h.device(), Shape{tokens, channels_}, 1, DType::f32),
                                           .a = decay_,
                                           .b = ones,
                                           .c = ones,
                                           .state = at.cache.states(at.layer)[0]},
                                          at.step.places);
    const Tensor y = reshape(sum.y, h.shape());
    return (*out_)(at.rows.defined() ? gather(y, at.rows) : y);
  }

 private:
  int64_t channels_;
  Tensor decay_;
  std::shared_ptr<nn::Linear> out_;
};

DecoderConfig read_config(const Checkpoint& checkpoint) {
  return read_decoder_config(ConfigReader(checkpoint), kNames);
}

}  // namespace

extern const Family kFading;
const Family kFading = {
    .architectures = kArchitectures,
    .names = kNames,
    .read_shape = [](const Checkpoint& checkpoint) { return read_config(checkpoint).shape; },
    .build = [](const Checkpoint& checkpoint, WeightSource& weights, int64_t context) -> std::unique_ptr<LanguageModel> {
      const DecoderConfig config = read_config(checkpoint);
      return std::make_unique<Decoder>(config, checkpoint, weights, context, [&](const MixerPlace& at) {
        return std::make_unique<Fading>(config.shape.embedding, at);
      });
    },
    .write_fields = [](const Checkpoint& checkpoint,
                       GgufFields& fields) { write_decoder_fields(read_config(checkpoint), fields); },
};

}  // namespace gabbro::llm::fading
"""

PROGRAM = """\
#include <cstdio>

#include "gabbro/engine/session.h"
#include "src/engine/model_needs.h"
#include "src/engine/random_model.h"

using namespace gabbro;

int main(int, char** words) {
  const llm::Blueprint shape = llm::parse_blueprint(words[1]);
  const FileType& type = *find_file_type("q8_0");
  const ModelNeeds needs = needs_of(llm::plan_of(shape), type);
  std::printf("parameters %lld, keys and values %llu, states %llu\\n", static_cast<long long>(needs.parameters),
              static_cast<unsigned long long>(kv_bytes_per_token(needs, DType::f16)),
              static_cast<unsigned long long>(state_bytes(needs)));
  const auto engine = load_random_model(shape, type, {.device = "cpu", .threads = 2, .context = 64, .sequences = 2}, nullptr);
  Session whole(engine), steps(engine);
  const std::vector<int32_t> ids = {3, 17, 4, 99, 5};
  const std::span<const float> logits = whole.append(ids);
  const std::vector<float> expected(logits.begin(), logits.end());
  std::span<const float> last;
  for (const int32_t id : ids) last = steps.append({&id, 1});
  float worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(expected[i] - last[i]));
  std::printf("%s %zu logits\\n", worst < 1e-2f ? "equal" : "different", expected.size());
  return 0;
}
"""

SOURCE, REGISTRY = "src/models/llm/families/fading.cc", "src/models/llm/registry.cc"
FIXTURES = "tests/reference/make_family_fixtures.py"  # a row, and the fixture that the script writes
MOST_FILES = 3
SHAPE = "architecture=fading,layers=2,embedding=64,heads=4,vocabulary=128,context=256"


class FamilyRecipe(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.build / "recipe" / "family"  # always the same, for a compiler cache
        shutil.rmtree(cls.folder, ignore_errors=True)
        tree = cls.folder / "tree"
        (tree / SOURCE).parent.mkdir(parents=True)
        (tree / SOURCE).write_text(FAMILY, encoding="utf-8")
        text = (ROOT / REGISTRY).read_text(encoding="utf-8")
        text, declared = re.subn(r"(?m)^(namespace falcon \{.*)$", r"namespace fading { extern const Family kFading; }\n\1", text)
        text, listed = re.subn(r"&falcon::kFalcon,", "&fading::kFading, &falcon::kFalcon,", text)
        assert declared == listed == 1, "tell this test where the registry's lines go"
        (tree / REGISTRY).write_text(text, encoding="utf-8")
        cls.touched = [str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()]
        (tree / "program.cc").write_text(PROGRAM, encoding="utf-8")
        builds = Build(cls.build, tree, cls.folder)
        # Headers are from the tree of the build.
        commands = json.loads((cls.build / "compile_commands.json").read_text(encoding="utf-8"))
        known = shlex.split(next(e["command"] for e in commands if "/gabbro_models.dir/" in e["command"]))
        options = known[:known.index("-o")]
        objects = []
        for source in (SOURCE, REGISTRY, "program.cc"):
            objects.append(str(cls.folder / (pathlib.Path(source).name + ".o")))
            run([*options, "-O0", "-g0", "-o", objects[-1], "-c", tree / source], cwd=cls.build)
        cls.program = cls.folder / "program"
        builds.link("tests/llm_test", objects, lambda path: False, cls.program)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def test_it_is_forecast_and_runs(self):
        environment = {**os.environ, "GABBRO_DEVICE": "cpu", "GABBRO_PLUGIN_PATH": str(self.build / "lib")}
        output = run([self.program, SHAPE], env=environment)
        self.assertRegex(output, r"parameters \d+, keys and values 0, states 512\n")  # 2 layers, 64 channels, f32
        self.assertIn("equal 128 logits", output)

    def test_the_recipe_names_the_files(self):
        text = (ROOT / "docs" / "recipes" / "model_family.md").read_text(encoding="utf-8")
        for name in (SOURCE, REGISTRY, FIXTURES):
            self.assertIn("src/models/llm/families/" if name == SOURCE else name, text)
        self.assertLessEqual(len({*self.touched, FIXTURES}), MOST_FILES)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    FamilyRecipe.build = pathlib.Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1])
