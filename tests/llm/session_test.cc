// Sessions: however the tokens come in, the logits are the sequence's; and a call that fails changes nothing.
#include "gabbro/engine/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "gabbro/file_faults.h"
#include "src/base/error.h"
#include "src/ops/kv_type.h"
#include "tests/llm/cache_tolerance.h"
#include "tests/llm/tiny_model.h"

namespace gabbro {
namespace {

using test::TinyModel;
using testing::HasSubstr;

std::shared_ptr<Engine> engine(LoadOptions options = {}, TinyModel model = test::tiny_llama()) {
  if (options.threads == 0) options.threads = 2;
  return Engine::load(model.write("session"), options);
}

std::vector<int32_t> sequence(size_t count, uint32_t seed = 1) {
  std::vector<int32_t> ids;
  for (uint32_t x = seed; ids.size() < count;) {
    x = x * 1664525u + 1013904223u;
    ids.push_back(static_cast<int32_t>((x >> 8) % TinyModel::kV));
  }
  return ids;
}

std::vector<float> copied(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

// The largest difference, in units of the largest logit.
double distance(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  double error = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::fabs(static_cast<double>(a[i])));
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  return error / largest;
}

ErrorCode code_of(const std::function<void()>& call, const char* part) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown: " << part;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(part));
    return error.code();
  }
  return ErrorCode::kFailed;
}

// The CPU uses these weights in the mapped file, in place. Missing bytes read as zeros, and the step throws.
TEST(Session, AFileThatIsCutEndsEachStepWithItsName) {
  handle_file_faults(FileFault::kThrow);
  const std::string path = testing::TempDir() + "cut.gguf";
  std::filesystem::copy_file(GABBRO_SOURCE_DIR "/tests/data/tiny/tiny-f16.gguf", path,
                             std::filesystem::copy_options::overwrite_existing);
  const auto shared = Engine::load(path, {.device = "cpu", .threads = 2});
  Session session(shared);
  const std::vector<int32_t> ids = {1, 2, 3};
  session.append(ids);
  std::filesystem::resize_file(path, 4096);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(code_of([&] { session.append(ids); }, "cut.gguf: the file had 145024 bytes"), ErrorCode::kFailed);
  }
  std::filesystem::remove(path);
}

class EachCache : public testing::TestWithParam<DType> {
 protected:
  double tolerance(std::span<const int32_t> tokens) const {
    return test::cache_tolerance(GetParam(), TinyModel::kL, std::ssize(tokens));
  }
};

TEST_P(EachCache, AtOnceOneByOneAndInChunksIsTheSame) {
  const auto shared = engine({.context = 2048, .kv_type = GetParam()});
  const std::vector<int32_t> ids = sequence(1200);  // three chunks of the prompt path
  const std::span<const int32_t> all(ids);
  std::vector<float> at_once;
  {
    Session session(shared);
    at_once = copied(session.append(all));
  }
  EXPECT_GT(*std::ranges::max_element(at_once) - *std::ranges::min_element(at_once), 1.0f);
  {
    Session session(shared);
    std::vector<float> last;
    for (const int32_t id : ids) last = copied(session.append({&id, 1}));
    EXPECT_LE(distance(at_once, last), tolerance(ids));
    EXPECT_TRUE(std::ranges::equal(session.tokens(), ids));
  }
  Session session(shared);
  std::vector<float> last;
  for (size_t done = 0; done < ids.size();) {
    const size_t part = std::min<size_t>(done % 3 == 0 ? 1 : 63 + done % 7, ids.size() - done);
    last = copied(session.append(all.subspan(done, part)));
    done += part;
  }
  EXPECT_LE(distance(at_once, last), tolerance(ids));
}

TEST_P(EachCache, AllLogitsAreThoseOfEachStep) {
  const auto shared = engine({.context = 1024, .kv_type = GetParam()});
  const std::vector<int32_t> ids = sequence(600);
  Session session(shared);
  const std::vector<float> all = copied(session.append_all_logits(ids));
  ASSERT_EQ(all.size(), ids.size() * TinyModel::kV);
  Session single(shared);
  for (size_t i = 0; i < 130; ++i) {
    const auto one = single.append(std::span(ids).subspan(i, 1));
    EXPECT_LE(distance(one, std::span(all).subspan(i * TinyModel::kV, TinyModel::kV)), tolerance(ids)) << i;
  }
}

TEST_P(EachCache, ATruncatedSessionGoesOnAsIfItHadNeverHeldMore) {
  const auto shared = engine({.kv_type = GetParam()});
  const std::vector<int32_t> ids = sequence(200);
  const std::vector<int32_t> other = sequence(100, 9);
  Session fresh(shared);
  fresh.append(std::span(ids).first(70));
  const std::vector<float> expected = copied(fresh.append(std::span(ids).subspan(70, 30)));
  fresh.truncate(0);
  Session session(shared);
  session.append(std::span(ids).first(70));
  session.append(other);
  session.truncate(70);
  EXPECT_TRUE(std::ranges::equal(session.tokens(), std::span(ids).first(70)));
  EXPECT_EQ(copied(session.append(std::span(ids).subspan(70, 30))), expected);  // the same steps: the same bits
}

TEST_P(EachCache, SessionsOfOneEngineDoNotDisturbEachOther) {
  const auto shared = engine({.kv_type = GetParam()});
  const std::vector<int32_t> first = sequence(100, 2);
  const std::vector<int32_t> second = sequence(100, 3);
  const auto run = [&](Session& session, const std::vector<int32_t>& ids, size_t at) {
    return copied(session.append(std::span(ids).subspan(at, at % 2 == 0 ? 9 : 1)));
  };
  std::vector<std::vector<float>> alone;
  for (const auto* ids : {&first, &second}) {
    Session session(shared);
    for (size_t at = 0; at < 90; at += at % 2 == 0 ? 9 : 1) alone.push_back(run(session, *ids, at));
  }
  Session a(shared);
  Session b(shared);
  const size_t half = alone.size() / 2;
  size_t step = 0;
  for (size_t at = 0; at < 90; at += at % 2 == 0 ? 9 : 1, ++step) {
    const std::span<const float> kept = a.append(std::span(first).subspan(at, at % 2 == 0 ? 9 : 1));
    EXPECT_EQ(run(b, second, at), alone[half + step]);
    EXPECT_EQ(copied(kept), alone[step]);  // valid until the next call of its session
  }
}

TEST_P(EachCache, SessionsOfSeveralThreadsTakeTurns) {
  const auto shared = engine({.context = 512, .kv_type = GetParam()});
  const auto run = [&](uint32_t seed) {
    const std::vector<int32_t> ids = sequence(120, seed);
    Session session(shared);
    std::vector<float> last;
    for (size_t at = 0; at < ids.size(); at += 8)
      last = copied(session.append(std::span(ids).subspan(at, at < 80 ? 8 : 1)));
    return last;
  };
  std::vector<std::vector<float>> alone;
  for (uint32_t seed = 0; seed < 3; ++seed) alone.push_back(run(seed));
  std::vector<std::vector<float>> together(alone.size());
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 3; ++seed) threads.emplace_back([&, seed] { together[seed] = run(seed); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
}

INSTANTIATE_TEST_SUITE_P(Formats, EachCache, testing::ValuesIn(kKvTypes),
                         [](const auto& format) { return std::string(dtype_name(format.param)); });

TEST(Session, RefusesWhatDoesNotFitAndStaysAsItWas) {
  const auto shared = engine({.context = 128});
  const std::vector<int32_t> ids = sequence(128);
  Session session(shared);
  session.append(std::span(ids).first(100));
  const auto check = [&](std::vector<int32_t> more, const char* message) {
    EXPECT_EQ(code_of([&] { session.append(more); }, message), ErrorCode::kBadInput);
    EXPECT_EQ(code_of([&] { session.append_all_logits(more); }, message), ErrorCode::kBadInput);
    EXPECT_EQ(session.tokens().size(), 100U);
  };
  check({}, "no tokens to append");
  check({5, -1}, "token -1 is outside the vocabulary of 300 tokens");
  check({300}, "token 300 is outside the vocabulary of 300 tokens");
  check(sequence(29), "129 tokens are more than the context of 128 holds");
  EXPECT_EQ(code_of([&] { session.truncate(101); }, "a session of 100 tokens cannot be cut to 101"),
            ErrorCode::kBadInput);
  EXPECT_EQ(code_of([&] { session.truncate(-1); }, "cannot be cut to -1"), ErrorCode::kBadInput);
  const std::vector<float> last = copied(session.append(std::span(ids).subspan(100)));
  session.truncate(0);
  EXPECT_LE(distance(last, session.append(ids)),
            test::cache_tolerance(DType::f16, TinyModel::kL, 128));  // a full context
}

TEST(Session, PagesGoBackToTheEngine) {
  const auto shared = engine({.context = 128});  // two pages
  auto first = std::make_unique<Session>(shared);
  Session second(shared);
  first->append(sequence(65));
  const std::vector<int32_t> ids = sequence(10);
  EXPECT_EQ(code_of([&] { second.append(ids); }, "the KV cache is full"), ErrorCode::kNoDevice);
  EXPECT_TRUE(second.tokens().empty());
  first->truncate(64);
  second.append(ids);
  EXPECT_EQ(code_of([&] { first->append(ids); }, "the KV cache is full"), ErrorCode::kNoDevice);
  EXPECT_EQ(first->tokens().size(), 64U);
  first.reset();
  second.append(sequence(100));
}

TEST(Session, ACanceledCallLeavesTheSessionAsItWas) {
  const auto shared = engine({.context = 2048});
  const std::vector<int32_t> ids = sequence(1500);
  Session session(shared);
  session.append(std::span(ids).first(100));
  const std::atomic<bool> cancel = true;
  for (const size_t count : {size_t{1}, size_t{50}, size_t{1400}}) {
    const auto more = std::span(ids).subspan(100, count);
    EXPECT_EQ(code_of([&] { session.append(more, &cancel); }, "interrupted"), ErrorCode::kInterrupted);
    EXPECT_EQ(code_of([&] { session.append_all_logits(more, &cancel); }, "interrupted"), ErrorCode::kInterrupted);
    EXPECT_EQ(session.tokens().size(), 100U);
  }
  const std::vector<float> after = copied(session.append(std::span(ids).subspan(100)));
  Session fresh(engine({.context = 2048}));
  fresh.append(std::span(ids).first(100));
  EXPECT_EQ(copied(fresh.append(std::span(ids).subspan(100))), after);
}

TEST(Session, ALongPromptIsInterruptedSoon) {
  using Clock = std::chrono::steady_clock;
  const auto shared = engine({.device = "cpu", .context = 16000});  // a GPU may be done before it is told
  const std::vector<int32_t> ids = sequence(16000);
  Session session(shared);
  session.append(std::span(ids).first(10));
  std::atomic<bool> cancel = false;
  Clock::time_point set;
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    set = Clock::now();
    cancel = true;
  });
  EXPECT_EQ(code_of([&] { session.append(std::span(ids).subspan(10), &cancel); }, "interrupted"),
            ErrorCode::kInterrupted);
  const auto ended = Clock::now();
  user.join();
  // 100 ms is the promise; a machine that is busy with other tests is given ten times that.
  EXPECT_LE(std::chrono::duration<double>(ended - set).count(), 1.0);
  EXPECT_EQ(session.tokens().size(), 10U);
  const std::vector<float> after = copied(session.append(std::span(ids).subspan(10, 20)));
  Session fresh(shared);
  fresh.append(std::span(ids).first(10));
  EXPECT_EQ(copied(fresh.append(std::span(ids).subspan(10, 20))), after);
}

TEST(Session, TheNumberOfThreadsDoesNotChangeABit) {
  const std::vector<int32_t> ids = sequence(90);
  for (const DType weights : {DType::f32, DType::q8_0}) {
    TinyModel model = test::tiny_llama();
    model.weights = weights;
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3}) {
      Session session(engine({.threads = threads}, model));
      results.push_back(copied(session.append(std::span(ids).first(80))));
      for (size_t i = 80; i < 90; ++i) results.back() = copied(session.append(std::span(ids).subspan(i, 1)));
    }
    EXPECT_EQ(results[0], results[1]) << dtype_name(weights);
    EXPECT_EQ(results[0], results[2]) << dtype_name(weights);
  }
}

TEST(Engine, TellsTheFactsOfItsModel) {
  TinyModel model = test::tiny_llama({.tied = false});
  model.weights = DType::q8_0;
  double last = 0;
  const auto shared =
      engine({.device = "cpu", .threads = 1, .context = 100, .progress = [&](double share) { last = share; }}, model);
  const ModelFacts& facts = shared->facts();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(facts.architecture, "llama");
  EXPECT_EQ(facts.quantization, "q8_0");
  EXPECT_EQ(facts.vocabulary, TinyModel::kV);
  EXPECT_EQ(facts.layers, TinyModel::kL);
  EXPECT_EQ(facts.context, 100);
  EXPECT_EQ(facts.context_trained, TinyModel::kContext);
  EXPECT_EQ(facts.device_id, "cpu");
  EXPECT_EQ(facts.threads, 1);
  EXPECT_EQ(facts.kv_bytes_per_token, 2U * TinyModel::kL * TinyModel::kD * 2);
  EXPECT_EQ(facts.weight_bytes - facts.bytes_per_token, TinyModel::kV * TinyModel::kC / 32 * 34U);  // the embeddings
  EXPECT_EQ(shared->chat_template(), nullptr);
  EXPECT_EQ(engine()->facts().context, TinyModel::kContext);  // what it was trained for, as that is less than 4096
}

TEST(Engine, TellsWhatTheFileCallsItself) {
  TinyModel model = test::tiny_llama();
  model.general = {{"general.name", std::string("Tiny")},
                   {"general.file_type", int64_t{15}},
                   {"tokenizer.chat_template", std::string("{{ bos_token }}")}};
  const auto shared = engine({}, model);
  EXPECT_EQ(shared->facts().name, "Tiny");
  EXPECT_EQ(shared->facts().quantization, "q4_k_m");
  EXPECT_NE(shared->chat_template(), nullptr);
  model.general["general.file_type"] = int64_t{9999};  // a type of the future: what most weights are
  EXPECT_EQ(engine({}, model)->facts().quantization, "f32");
}

TEST(Engine, RefusesOptionsAndFilesOutOfRange) {
  EXPECT_EQ(code_of([] { engine({.context = -5}); }, "the context cannot be -5 tokens"), ErrorCode::kBadInput);
  EXPECT_EQ(code_of([] { engine({.context = 1 << 30}); }, "a context of 1073741824 tokens exceeds"),
            ErrorCode::kBadInput);
  EXPECT_EQ(code_of([] { engine({.kv_type = DType::q5_0}); }, "a KV cache is f32, bf16, f16, q8_0 or q4_0, not q5_0"),
            ErrorCode::kBadInput);
  EXPECT_EQ(code_of([] { engine({.device = "abacus"}); }, "there is no device 'abacus'"), ErrorCode::kNoDevice);
  EXPECT_EQ(code_of([] { Engine::load("/nonexistent/model.gguf", {}); }, "/nonexistent/model.gguf"),
            ErrorCode::kBadInput);
  code_of([] { engine({.device = "cpu", .threads = -1}); }, "-1 threads");
  TinyModel model = test::tiny_llama();
  model.tokens.push_back("one too many");
  EXPECT_EQ(code_of([&] { engine({}, model); }, "the vocabulary has 301 tokens, the embeddings only 300"),
            ErrorCode::kBadInput);
  model.tokens.clear();
  EXPECT_EQ(code_of([&] { engine({}, model); }, "the file has no vocabulary"), ErrorCode::kBadInput);
}

}  // namespace
}  // namespace gabbro
