#include "src/engine/worker/messages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "src/base/error.h"

namespace gabbro::worker {
namespace {

EngineSpec a_spec() {
  EngineSpec spec{.path = "/models/a model.gguf", .cache_folder = "/cache", .cache_bytes = 9, .deterministic = true};
  spec.options = {.device = "rocm:1", .threads = 3, .context = 8192, .sequences = 8, .kv_type = DType::q8_0};
  spec.options.memory = kFreeMemory;
  spec.options.devices = {"rocm:1", "rocm:0"};
  spec.options.shares = {3, 0.5};
  spec.options.adapters = {{.path = "lora", .scale = 0.5f}, {.path = "", .scale = -1}};
  spec.draft = {.path = "draft.gguf", .tokens = 4, .lookup = true};
  return spec;
}

GenerationRequest a_request() {
  GenerationRequest request{.prompt = {1, -1, 1 << 30}};
  request.options = {
      .max_tokens = 7, .stop = {"a", std::string("\0b", 2)}, .shown_controls = {"[X]"}, .ignore_end = true};
  request.tree = "key";
  request.options.thoughts = {
      .tokens = 9, .open = "<t>", .close = "</t>", .closing = "\n</t>", .soft_closing = "</t>", .is_open = true};
  request.options.format = {
      .kind = OutputFormat::Kind::kRegex, .source = "a+", .after = "b", .optional_begin = "a", .controls = {"<c>"}};
  request.options.min_tokens = 2;
  request.options.scores_prompt = true;
  request.options.sampler.top_logprobs = 5;
  request.options.sampler.logit_bias = {{3, 0.25f}};
  request.options.sampler.dry_sequence_breakers = {};
  request.options.sampler.seed = UINT64_MAX;
  return request;
}

// One of each kind.
std::vector<Message> all_messages() {
  LoadedFacts facts;
  facts.model.name = "Tiny";
  facts.model.kv_type = DType::f32;
  facts.model.warnings = {"one", "two"};
  facts.model.streaming.link = "file";
  facts.model.streaming.seconds_per_pass = 0.125;
  facts.device_memory = uint64_t{1} << 40;
  GenerateResult result{.text = "hi", .token_ids = {4, 5}};
  result.stop_reason = StopReason::kCanceled;
  result.stop_text = "a";
  result.decode_seconds = 0.5;
  result.scores = {{.token = 4, .logprob = -0.5, .top = {}}};
  StreamingWork work;
  work.expert_bytes = 9;
  const Fault fault{ErrorCode::kNoDevice, "no device", "a hint"};
  return {Load{a_spec()},
          Add{3, a_request()},
          Cancel{3},
          Shutdown{},
          Progress{0.75},
          Loaded{facts},
          LoadFailed{fault},
          Started{3},
          Text{3, "words", {{.token = 1, .logprob = -2, .top = {{1, -2}}}}},
          Finished{3, result, work},
          Failed{3, fault},
          Lost{"why"},
          Pause{3, true}};
}

std::optional<Message> decoded(std::string_view bytes) {
  MessageReader reader;
  reader.feed(bytes);
  return reader.next();
}

TEST(Messages, ComeBackAsTheyWere) {
  const std::vector<Message> messages = all_messages();
  ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSERT_EQ(messages[i].index(), i);
    const std::string bytes = encode(messages[i]);
    const std::optional<Message> back = decoded(bytes);
    ASSERT_TRUE(back) << i;
    EXPECT_EQ(back->index(), i);
    EXPECT_EQ(encode(*back), bytes) << i;
  }
  const auto spec = std::get<Load>(*decoded(encode(Load{a_spec()}))).spec;
  EXPECT_EQ(spec.options.kv_type, DType::q8_0);
  EXPECT_EQ(spec.options.memory, kFreeMemory);
  EXPECT_EQ(spec.options.devices, a_spec().options.devices);
  EXPECT_EQ(spec.options.shares, a_spec().options.shares);
  EXPECT_EQ(spec.options.adapters[1].scale, -1);
  EXPECT_TRUE(spec.deterministic && spec.draft.lookup && !spec.draft.no_lookup);
  const auto request = std::get<Add>(*decoded(encode(Add{3, a_request()}))).request;
  EXPECT_EQ(spec.cache_folder, "/cache");
  EXPECT_EQ(request.prompt, a_request().prompt);
  EXPECT_EQ(request.tree, "key");
  EXPECT_EQ(request.options.stop[1], std::string("\0b", 2));
  EXPECT_EQ(request.options.sampler.seed, UINT64_MAX);
}

TEST(Messages, ComeInPieces) {
  std::string stream;
  for (const Message& message : all_messages()) stream += encode(message);
  for (const size_t step : {size_t{1}, size_t{7}, size_t{1000}, stream.size()}) {
    MessageReader reader;
    size_t count = 0;
    for (size_t at = 0; at < stream.size(); at += step) {
      reader.feed(std::string_view(stream).substr(at, step));
      while (const auto message = reader.next()) EXPECT_EQ(message->index(), count++);
    }
    EXPECT_EQ(count, std::variant_size_v<Message>);
  }
}

// With the length in the header set right, so that the fields are read.
std::string with_body(const Message& message, const std::function<void(std::string&)>& change) {
  std::string bytes = encode(message);
  std::string body = bytes.substr(8);
  change(body);
  const auto size = static_cast<uint32_t>(body.size());
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes.substr(0, 8) + body;
}

TEST(Messages, ThatAreCutOrTooLongAreRefused) {
  for (const Message& message : all_messages()) {
    const size_t size = encode(message).size() - 8;
    for (size_t end = 0; end < size; ++end)
      EXPECT_THROW(decoded(with_body(message, [&](std::string& body) { body.resize(end); })), Error) << message.index();
    EXPECT_THROW(decoded(with_body(message, [](std::string& body) { body += '\0'; })), Error) << message.index();
  }
}

TEST(Messages, ThatAreDamagedAreRefusedOrWhole) {
  std::mt19937 random(1);
  for (const Message& message : all_messages()) {
    for (int i = 0; i < 2000; ++i) {
      const std::string bytes = with_body(message, [&](std::string& body) {
        for (size_t n = 1 + random() % 3; n > 0 && !body.empty(); --n)
          body[random() % body.size()] = static_cast<char>(random());
      });
      try {
        const std::optional<Message> back = decoded(bytes);
        ASSERT_TRUE(back);
        EXPECT_EQ(encode(*decoded(encode(*back))), encode(*back));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kFailed);
      }
    }
  }
}

std::string refusal(std::string_view bytes) {
  try {
    decoded(bytes);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Messages, HeadersAreChecked) {
  std::string bytes = encode(Cancel{1});
  bytes[4] = 9;
  EXPECT_EQ(refusal(bytes), "a message is of version 9, expected 4");
  bytes = encode(Cancel{1});
  bytes[6] = 99;
  EXPECT_EQ(refusal(bytes), "message 99 is not known");
  bytes = encode(Cancel{1});
  bytes[3] = '\x7f';  // before those bytes are there
  EXPECT_EQ(refusal(bytes), "a message has 2130706440 bytes, more than 67108864");
  EXPECT_FALSE(decoded(encode(Cancel{1}).substr(0, 15)));
  EXPECT_THROW(encode(Text{1, std::string(kMaxMessageBytes, 'x')}), Error);
}

}  // namespace
}  // namespace gabbro::worker
