// Each field of the GGUF files of families without a sensible value: missing, 0, negative, huge, of another type. The
// model loads all the same, or one line names the file. hostile_families_test.cc does the same to config.json.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>

#include "src/backend/registry.h"
#include "src/base/error.h"
#include "src/convert/convert.h"
#include "src/formats/gguf/ggml_type.h"
#include "src/formats/gguf/gguf_writer.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

using gguf::ValueType;

// A value in the place of a field's; `write` gets the key. Null: the field is missing.
struct HostileValue {
  const char* what;
  void (*write)(gguf::Writer& writer, const std::string& key);
};

constexpr HostileValue kMissing{"missing", nullptr};
constexpr HostileValue kText{"a text",
                             [](gguf::Writer& w, const std::string& key) { w.add_string(key, "unheard-of"); }};
constexpr HostileValue kZero{"0", [](gguf::Writer& w, const std::string& key) { w.add_u32(key, 0); }};
constexpr HostileValue kNegative{
    "-1", [](gguf::Writer& w, const std::string& key) { w.add_integer(key, ValueType::i32, -1); }};
constexpr HostileValue kHuge{
    "2^62", [](gguf::Writer& w, const std::string& key) { w.add_integer(key, ValueType::u64, int64_t{1} << 62); }};
constexpr HostileValue kMany{"2^31 - 1", [](gguf::Writer& w, const std::string& key) {
                               w.add_integer(key, ValueType::i32, std::numeric_limits<int32_t>::max());
                             }};
constexpr HostileValue kNan{"not a number", [](gguf::Writer& w, const std::string& key) {
                              w.add_f32(key, std::numeric_limits<float>::quiet_NaN());
                            }};
constexpr HostileValue kLargest{"3e38", [](gguf::Writer& w, const std::string& key) { w.add_f32(key, 3e38f); }};
constexpr HostileValue kBelow{"-1.0", [](gguf::Writer& w, const std::string& key) { w.add_f32(key, -1); }};
constexpr HostileValue kEmpty{
    "an empty list", [](gguf::Writer& w, const std::string& key) { w.add_i32s(key, std::span<const int32_t>()); }};
constexpr HostileValue kShort{"a list of one", [](gguf::Writer& w, const std::string& key) {
                                const int32_t one[] = {-7};
                                w.add_i32s(key, one);
                              }};
constexpr HostileValue kTexts{"a list of texts", [](gguf::Writer& w, const std::string& key) {
                                const std::string_view texts[] = {"x", "y", "z"};
                                w.add_strings(key, texts);
                              }};

std::vector<HostileValue> hostile_values_of(const gguf::Value& value) {
  switch (value.type()) {
    case ValueType::string:
      return {kMissing, kText, kZero};
    case ValueType::boolean:
      return {kMissing, kText, kMany, kEmpty};
    case ValueType::f32:
      return {kMissing, kText, kNan, kLargest, kBelow};
    case ValueType::array:
      return {kMissing, kText, kZero, kHuge, kEmpty, kShort, kTexts};
    default:
      return {kMissing, kText, kZero, kNegative, kHuge, kMany, kShort};
  }
}

class HostileFields : public testing::TestWithParam<const char*> {
 protected:
  HostileFields() : path_(testing::TempDir() + "fields-" + std::to_string(::getpid()) + ".gguf") {
    const std::string folder = GABBRO_SOURCE_DIR "/tests/data/families/" + std::string(GetParam());
    whole_ = path_ + ".whole";
    llm::convert(Checkpoint::open(folder), whole_, {.type = find_file_type(std::string_view("bf16")), .threads = 1});
    device_ = open_device("null");
  }
  ~HostileFields() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(whole_);
  }

  // The message with which a file is refused whose field `key` has another value; "" where it loads.
  std::string refusal(const Checkpoint& whole, std::string_view key, const HostileValue& value) const {
    gguf::Writer writer;
    for (const MetadataField& field : whole.metadata().fields()) {
      if (field.key != key) {
        writer.add_value(field.key, *field.value.gguf());
      } else if (value.write != nullptr) {
        value.write(writer, std::string(key));
      }
    }
    for (const CheckpointTensor& tensor : whole.tensors())
      writer.add_tensor(std::string(tensor.name), gguf::ggml_type_number(tensor.dtype()), tensor.shape, tensor.data);
    writer.write(path_);
    try {
      llm::load_model(Checkpoint::open(path_), device_, {.context = 64});
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput) << error.what();
      return error.what();
    }
  }

  std::string path_, whole_;
  std::shared_ptr<Device> device_;
};

TEST_P(HostileFields, AreRefusedWithOneLineOrLoad) {
  const Checkpoint whole = Checkpoint::open(whole_);
  const std::string prefix = std::string(whole.metadata().require_string("general.architecture")) + ".";
  ASSERT_EQ(refusal(whole, "", kMissing), "");
  int refused = 0;
  for (const MetadataField& field : whole.metadata().fields()) {
    if (!field.key.starts_with(prefix) && field.key != "general.architecture") continue;
    for (const HostileValue& value : hostile_values_of(*field.value.gguf())) {
      SCOPED_TRACE(std::string(field.key) + " = " + value.what);
      const std::string message = refusal(whole, field.key, value);
      if (message.empty()) continue;
      ++refused;
      EXPECT_EQ(message.find('\n'), message.npos) << message;
      EXPECT_TRUE(message.starts_with(path_)) << message;
      EXPECT_GT(message.size(), path_.size() + 10) << message;
    }
  }
  EXPECT_GT(refused, 20);
}

// One of each of those that read further fields.
INSTANTIATE_TEST_SUITE_P(Families, HostileFields,
                         testing::Values("apertus", "deepseek_v3", "falcon_h1", "gpt_oss", "granitemoehybrid", "jamba",
                                         "lfm2_moe", "llama4_text", "mamba", "minimax_m2", "nemotron_h", "qwen3_5_text",
                                         "qwen3_next"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace gabbro
