#include "src/engine/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "src/base/error.h"
#include "src/formats/gguf/gguf_writer.h"

namespace gabbro {
namespace {

using gguf::ValueType;
using testing::HasSubstr;

constexpr std::string_view kTokens[] = {"<unk>", "<s>", "</s>", "a", "b"};

// A file with a vocabulary and what `more` adds.
template <class More>
Checkpoint file_with(More&& more) {
  gguf::Writer writer;
  writer.add_string("general.architecture", "llama");
  writer.add_string("tokenizer.ggml.model", "llama");
  writer.add_strings("tokenizer.ggml.tokens", kTokens);
  writer.add_f32s("tokenizer.ggml.scores", std::vector<float>{0, 0, 0, -1, -2});
  writer.add_i32s("tokenizer.ggml.token_type", std::vector<int32_t>{2, 3, 3, 1, 1});
  more(writer);
  const std::string path = testing::TempDir() + "model_text-" + std::to_string(::getpid()) + ".gguf";
  writer.write(path);
  return Checkpoint::open(path);
}

template <class More>
std::string refusal(More&& more) {
  const Checkpoint file = file_with(more);
  try {
    read_tokenizer(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadInput);
    EXPECT_TRUE(std::string(error.what()).starts_with(file.path() + ": ")) << error.what();
    return error.what();
  }
  return "";
}

TEST(ModelText, ReadsWhatTheFileSays) {
  const Checkpoint file = file_with([](gguf::Writer& w) {
    w.add_u32("tokenizer.ggml.bos_token_id", 1);
    w.add_integer("tokenizer.ggml.eos_token_id", ValueType::i32, 2);
    w.add_u32("tokenizer.ggml.padding_token_id", 0xffffffff);
    w.add_integer("tokenizer.ggml.eot_token_id", ValueType::i32, -1);
    w.add_bool("tokenizer.ggml.add_bos_token", false);
    w.add_string("tokenizer.chat_template", "{{ eos_token }}");
  });
  const text::VocabularySpec spec = read_vocabulary(file);
  EXPECT_EQ(spec.model, "llama");
  EXPECT_EQ(spec.tokens.size(), 5U);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_EQ(spec.eos, 2);
  EXPECT_EQ(spec.padding, text::kNoToken);  // both are how writers say "none"
  EXPECT_EQ(spec.eot, text::kNoToken);
  EXPECT_EQ(spec.add_bos, false);
  EXPECT_EQ(spec.add_eos, std::nullopt);
  EXPECT_EQ(file.chat_template(), "{{ eos_token }}");
  const auto variables = template_variables(read_tokenizer(file));
  EXPECT_EQ(variables.dump(), R"({"bos_token":"<s>","eos_token":"</s>","unk_token":"<unk>"})");
  EXPECT_EQ(file_with([](gguf::Writer&) {}).chat_template(), std::nullopt);
}

// Ollama's key; ids outside the vocabulary are not used.
TEST(ModelText, ReadsAllTokensThatEndAnAnswer) {
  const auto ends = [](const auto& more) { return read_tokenizer(file_with(more)).end_of_generation(); };
  EXPECT_EQ(ends([](gguf::Writer& w) {
              w.add_u32("tokenizer.ggml.eos_token_id", 2);
              w.add_i32s("tokenizer.ggml.eos_token_ids", std::vector<int32_t>{2, 3, 4, 77, -1});
            }),
            (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(ends([](gguf::Writer& w) { w.add_u32s("tokenizer.ggml.eos_token_ids", std::vector<uint32_t>{4}); }),
            (std::vector<int32_t>{2, 4}));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.add_u32("tokenizer.ggml.eos_token_ids", 4); }),
              HasSubstr("'tokenizer.ggml.eos_token_ids'"));
}

TEST(ModelText, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.add_string("tokenizer.ggml.bos_token_id", "one"); }),
              HasSubstr("field 'tokenizer.ggml.bos_token_id' is "));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.add_integer("tokenizer.ggml.eos_token_id", ValueType::i32, -7); }),
              HasSubstr("field 'tokenizer.ggml.eos_token_id' is -7, not a token id"));
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.add_integer("tokenizer.ggml.eos_token_id", ValueType::i64, 1LL << 40); }),
              HasSubstr("field 'tokenizer.ggml.eos_token_id' is 1099511627776, not a token id"));
  EXPECT_EQ(refusal([](gguf::Writer& w) { w.add_u32("tokenizer.ggml.bos_token_id", 5); }), "");  // not used
  EXPECT_EQ(refusal([](gguf::Writer& w) { w.add_u32("tokenizer.ggml.add_eos_token", 0); }), "");
  EXPECT_THAT(refusal([](gguf::Writer& w) { w.add_u32("tokenizer.ggml.add_bos_token", 2); }),
              HasSubstr("'tokenizer.ggml.add_bos_token'"));
  EXPECT_EQ(refusal([](gguf::Writer&) {}), "");
}

}  // namespace
}  // namespace gabbro
