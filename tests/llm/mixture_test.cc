// Mixtures of experts: what a token reads of them, files that are refused, and random models of given sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gabbro/engine/session.h"
#include "src/convert/convert.h"
#include "src/engine/model_needs.h"
#include "src/formats/hugging_face/safetensors.h"
#include "src/models/llm/registry.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;

std::string family(const std::string& name) { return GABBRO_SOURCE_DIR "/tests/data/families/" + name; }

// Bytes of the tensors whose names contain one of these texts.
uint64_t bytes_of(const std::string& folder, const std::vector<std::string>& parts) {
  const safetensors::File file(folder + "/model.safetensors");
  uint64_t bytes = 0;
  for (const safetensors::TensorInfo& tensor : file.tensors()) {
    const bool wanted = std::ranges::any_of(
        parts, [&](const std::string& part) { return std::string(tensor.name).find(part) != std::string::npos; });
    if (wanted) bytes += tensor.data.size();
  }
  return bytes;
}

struct MixtureFixture {
  const char* name;
  std::vector<std::string> experts;  // parts of the names of routed experts' tensors
  uint64_t used, of;
};

std::vector<MixtureFixture> fixtures() {
  return {{"mixtral", {".experts."}, 2, 5},
          {"qwen2_moe", {".experts."}, 3, 6},
          {"qwen3_moe", {".experts."}, 2, 8},
          {"granitemoe", {".input_linear.", ".output_linear."}, 2, 5}};
}

TEST(Mixture, ATokenReadsTheShareOfItsExperts) {
  for (const MixtureFixture& fixture : fixtures()) {
    const std::string folder = family(fixture.name);
    const uint64_t all = bytes_of(folder, {""}), experts = bytes_of(folder, fixture.experts);
    ASSERT_GT(experts, 0u) << fixture.name;
    const ModelNeeds needs = needs_of(Checkpoint::open(folder));
    EXPECT_EQ(needs.weight_bytes, all) << fixture.name;
    // The share of each tensor is rounded down to a byte; there are fewer than 128 of experts.
    const uint64_t read = all - bytes_of(folder, {"embed_tokens"}) - experts + experts * fixture.used / fixture.of;
    EXPECT_LE(needs.bytes_per_token, read) << fixture.name;
    EXPECT_GT(needs.bytes_per_token + 128, read) << fixture.name;
  }
}

// As llama.cpp reads them: one tensor [E, N, K] for all experts of a layer, and routers in f32.
TEST(Mixture, AConvertedFileHasOneTensorForAllExperts) {
  const std::string path = testing::TempDir() + "mixture-" + std::to_string(::getpid()) + ".gguf";
  for (const char* name : {"qwen3_moe", "granitemoe"}) {
    llm::convert(Checkpoint::open(family(name)), path,
                 {.type = find_file_type(std::string_view("bf16")), .threads = 2});
    const Checkpoint file = Checkpoint::open(path);
    const llm::ModelShape shape = llm::read_shape(file);
    using testing::ElementsAre;
    EXPECT_THAT(file.require_tensor("blk.1.ffn_gate_exps.weight").shape,
                ElementsAre(shape.experts, shape.expert_feed_forward, shape.embedding));
    EXPECT_THAT(file.require_tensor("blk.1.ffn_up_exps.weight").shape,
                ElementsAre(shape.experts, shape.expert_feed_forward, shape.embedding));
    EXPECT_THAT(file.require_tensor("blk.1.ffn_down_exps.weight").shape,
                ElementsAre(shape.experts, shape.embedding, shape.expert_feed_forward));
    EXPECT_EQ(file.require_tensor("blk.1.ffn_down_exps.weight").format, "BF16");
    EXPECT_EQ(file.require_tensor("blk.1.ffn_gate_inp.weight").format, "F32");
  }
  fs::remove(path);
}

// A copy of the fixture with another config.json.
std::string with_fields(const std::string& name, const nlohmann::json& changes) {
  const fs::path copy = fs::path(testing::TempDir()) / ("mixture-" + std::to_string(::getpid()));
  fs::remove_all(copy);
  fs::create_directories(copy);
  fs::copy_file(family(name) + "/model.safetensors", copy / "model.safetensors");
  nlohmann::json config = nlohmann::json::parse(std::ifstream(family(name) + "/config.json"));
  config.merge_patch(changes);
  std::ofstream(copy / "config.json") << config.dump();
  return copy.string();
}

std::string refusal_of(const std::string& folder) {
  try {
    Engine::load(folder, {.threads = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Mixture, SizesThatDoNotFitAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal_of(with_fields("mixtral", {{"num_experts_per_tok", 6}})),
              HasSubstr("field 'num_experts_per_tok' is 6, expected 1 to 5"));
  EXPECT_THAT(refusal_of(with_fields("mixtral", {{"num_local_experts", 4}})),
              HasSubstr("block_sparse_moe.gate.weight' has shape (5, 32), the model's sizes ask for (4, 32)"));
  EXPECT_THAT(refusal_of(with_fields("qwen3_moe", {{"moe_intermediate_size", 16}})),
              HasSubstr("mlp.experts.0.gate_proj.weight' has shape (24, 32), the model's sizes ask for (16, 32)"));
  EXPECT_THAT(refusal_of(with_fields("olmoe", {{"clip_qkv", 8.0}})), HasSubstr("field 'clip_qkv' is not supported"));
  for (const char* dense : {"llama", "qwen3"}) {
    EXPECT_THAT(refusal_of(with_fields(dense, {{"num_local_experts", 4}, {"num_experts", 4}})), testing::Eq(""))
        << "the class has no experts";
  }
}

TEST(Mixture, ARandomModelOfGivenSizesReadsTheShareOfItsExperts) {
  const auto needs = [](const std::string& sizes) {
    const llm::Blueprint blueprint =
        llm::parse_blueprint("architecture=qwen3moe,layers=2,embedding=64,heads=4," + sizes);
    return needs_of(llm::plan_of(blueprint), *find_file_type(std::string_view("f16")));
  };
  const ModelNeeds some = needs("experts=8,experts-used=2,expert-feed-forward=32");
  const ModelNeeds all = needs("experts=8,experts-used=8,expert-feed-forward=32");
  EXPECT_EQ(some.weight_bytes, all.weight_bytes);
  EXPECT_EQ(all.bytes_per_token - some.bytes_per_token, 2u * 6 * 3 * 64 * 32 * 2);  // 2 layers, 6 experts, f16
  EXPECT_THROW(needs("experts=2,experts-used=3"), Error);
  EXPECT_THROW(needs("experts-used=1"), Error);
}

}  // namespace
}  // namespace gabbro
