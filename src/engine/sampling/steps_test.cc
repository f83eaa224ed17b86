// Each step against its definition in NumPy (tests/reference/make_sampler_fixture.py).
#include <gtest/gtest.h>

#include <algorithm>

#include "src/engine/model_text.h"
#include "src/engine/sampling/candidates.h"
#include "src/engine/sampling/mirostat.h"
#include "src/engine/sampling/penalties.h"
#include "src/engine/sampling/sequence_breakers.h"
#include "src/engine/sampling/test_fixture.h"
#include "src/engine/sampling/truncation.h"
#include "src/text/test_vocabulary.h"
#include "src/text/tokenizer.h"

namespace gabbro {
namespace {

using sampling::Candidates;
using sampling::fixture;
using sampling::logits_named;

std::vector<int> sorted_ids(const Candidates& candidates) {
  std::vector<int> ids;
  for (const auto& c : candidates.items) ids.push_back(c.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(SamplerSteps, KeepWhatTheirDefinitionsKeep) {
  for (const auto& row : fixture()["steps"]) {
    const auto logits = logits_named(row["logits"]);
    const std::string step = row["step"];
    const float value = row["value"];
    // Both inputs of a step: all logits in the order of ids, and a sorted selection.
    for (const bool sorted : {false, true}) {
      Candidates candidates;
      candidates.assign_top(logits, step == "top_k" ? row["value"].get<int64_t>() : 0);
      if (sorted) candidates.sort_prefix(candidates.items.size());
      if (step == "typical") sampling::typical(candidates, value);
      if (step == "top_p") sampling::top_p(candidates, value);
      if (step == "min_p") sampling::min_p(candidates, value);
      if (step == "xtc") sampling::xtc(candidates, value);
      EXPECT_EQ(sorted_ids(candidates), row["ids"].get<std::vector<int>>()) << step << " " << value << " " << sorted;
    }
  }
}

TEST(SamplerSteps, PenaltiesFollowTheirDefinitions) {
  for (const auto& row : fixture()["edits"]) {
    SamplerOptions options;
    const bool dry = row["kind"] == "dry";
    if (dry) {
      options.dry_multiplier = row["multiplier"];
      options.dry_base = row["base"];
      options.dry_allowed_length = row["allowed"];
    } else {
      options.repeat_penalty = row["repeat"];
      options.frequency_penalty = row["frequency"];
      options.presence_penalty = row["presence"];
      options.penalty_window = row["window"];
    }
    sampling::History history(options.penalty_window);
    for (const int token : row["history"]) history.accept(token);
    auto logits = logits_named("spread");
    dry ? sampling::penalize_repetition(logits, history, {}, options)
        : sampling::penalize_counts(logits, history, options);
    const auto expected = row["result"].get<std::vector<double>>();
    for (size_t i = 0; i < expected.size(); ++i) {
      // Four roundings of float at most, each half an epsilon of the value.
      EXPECT_NEAR(logits[i], expected[i], 4 * 0x1p-24 * (1 + std::abs(expected[i]))) << row["kind"] << " token " << i;
    }
  }
}

// llama.cpp's penalty of each token (tests/reference/make_dry_fixture.py).
TEST(SamplerSteps, DryBreaksSequencesWhereLlamaCppDoes) {
  const std::string data = GABBRO_SOURCE_DIR "/tests/data/";
  const auto tiny = read_tokenizer(Checkpoint::open(data + "tiny/tiny-f16.gguf"));
  const text::Tokenizer sentencepiece(text::sentencepiece_spec());
  const auto rows = nlohmann::json::parse(read_file(data + "sampler/dry_breakers.json"));
  ASSERT_GT(rows.size(), 100u);
  for (const auto& row : rows) {
    const text::Tokenizer& tokenizer = row["vocabulary"] == "tiny" ? tiny : sentencepiece;
    SamplerOptions options;
    options.dry_multiplier = row["multiplier"];
    options.dry_base = row["base"];
    options.dry_allowed_length = row["allowed"];
    const auto texts = row["breakers"].get<std::vector<std::string>>();
    sampling::History history(0);
    for (const int token : row["history"]) history.accept(token);
    std::vector<float> logits(static_cast<size_t>(tokenizer.size()), 0.0f);
    sampling::penalize_repetition(logits, history, sampling::SequenceBreakers(tokenizer, texts), options);
    for (int32_t id = 0; id < tokenizer.size(); ++id) {
      const double expected = row["penalties"].value(std::to_string(id), 0.0);
      // Two roundings there and here, of the power and of the product.
      EXPECT_NEAR(-logits[static_cast<size_t>(id)], expected, 4 * 0x1p-24 * expected) << row.dump() << " token " << id;
    }
  }
}

TEST(SamplerSteps, MirostatFollowsThePaper) {
  for (const auto& series : fixture()["mirostat"]) {
    sampling::Mirostat mirostat(series["version"], series["tau"], series["eta"], 257);
    const auto logits = logits_named(series["logits"]);
    for (const auto& row : series["rows"]) {
      Candidates candidates;
      candidates.assign_top(logits, 0);
      mirostat.truncate(candidates);
      EXPECT_EQ(sorted_ids(candidates), row["ids"].get<std::vector<int>>()) << series["version"] << series["logits"];
      for (const auto& c : candidates.items) {
        if (c.id == row["picked"]) {
          EXPECT_NEAR(c.probability, row["probability"].get<double>(), 1e-6);
          mirostat.observe(c.probability);
        }
      }
      EXPECT_NEAR(mirostat.mu(), row["mu"].get<double>(), 1e-4);
    }
  }
}

}  // namespace
}  // namespace gabbro
