// Fields of all other configuration classes in the config.json of each family: the same logits to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "gabbro/engine/session.h"
#include "src/models/config/config_class.h"
#include "tests/llm/expected_logits.h"
#include "tests/llm/family_folder.h"

namespace gabbro {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Looked at in every class: the kinds of layers have to fit the model.
constexpr const char* kOfAll[] = {"layer_types", "mlp_layer_types", "rope_parameters", "max_position_embeddings"};

std::string name_of(const std::string& key) { return key.substr(0, key.find(':')); }

// A value by which a model would be another one.
Json telling_value(const std::string& types) {
  for (const char type : types) {
    if (type == 'i') return 3;
    if (type == 'f') return 0.37;
    if (type == 'b') return true;
    if (type == 'I') return {0, 1};
    if (type == 'S') return {"sliding_attention"};
  }
  return "relu";
}

// The names that a class or its model reads, or that cannot be set there.
std::set<std::string> known_to(const Json& row) {
  std::set<std::string> names(std::begin(kOfAll), std::end(kOfAll));
  const Json fields = row.value("fields", Json::object()), synonyms = row.value("synonyms", Json::object());
  for (const auto& [key, value] : fields.items()) names.insert(name_of(key));
  for (const auto& [other, name] : synonyms.items()) names.insert({other, name.get<std::string>()});
  for (const char* list : {"further", "fixed"}) {
    for (const Json& name : row.value(list, Json::array())) names.insert(name.get<std::string>());
  }
  if (row.contains("rope")) {  // the names of the parts of rope_parameters outside of it
    names.insert({"rope_theta", "rope_scaling", "partial_rotary_factor", "original_max_position_embeddings"});
  }
  return names;
}

Json with_foreign_fields(Json config) {
  const Json row = Json::parse(llm::find_config_class(config["model_type"].get<std::string>())->row);
  const std::set<std::string> known = known_to(row);
  for (const llm::ConfigClass& other : llm::config_classes()) {
    const Json fields = Json::parse(other.row).value("fields", Json::object());
    for (const auto& [key, value] : fields.items()) {
      const std::string name = name_of(key);
      if (!known.contains(name)) config[name] = telling_value(key.substr(name.size() + 1));
    }
  }
  if (!row.contains("rope")) config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 3.0}};
  return config;
}

std::vector<std::string> names_of_families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GABBRO_SOURCE_DIR "/tests/data/families"))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class ForeignFields : public testing::TestWithParam<std::string> {};

TEST_P(ForeignFields, ChangeNoLogits) {
  const std::string folder = family_folder(GetParam());
  const Expected expected = read_expected(folder);
  Json config;
  std::ifstream(folder + "/config.json") >> config;
  const fs::path copy = with_config(folder);
  fs::create_symlink(folder + "/model.safetensors", copy / "model.safetensors");
  const auto logits = [&] {
    Session session(Engine::load(copy.string(), {.threads = 2}));
    const std::span<const float> found = session.append_all_logits(expected.ids);
    return std::vector<float>(found.begin(), found.end());
  };
  const std::vector<float> plain = logits();
  const Json changed = with_foreign_fields(config);
  EXPECT_GT(changed.size(), config.size() + 100);
  std::ofstream(copy / "config.json") << changed;
  EXPECT_EQ(logits(), plain);
}

INSTANTIATE_TEST_SUITE_P(All, ForeignFields, testing::ValuesIn(names_of_families()),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace gabbro
