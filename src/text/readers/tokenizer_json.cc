// tokenizer.json of Hugging Face, with the files next to it.
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "src/base/error.h"
#include "src/text/chat/special_template.h"
#include "src/text/pipeline/pipeline.h"
#include "src/text/readers/tokenizer_spec.h"
#include "src/text/special/special_names.h"

namespace gabbro::text {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;

AddedToken read_added_token(const JsonNode& node) {
  AddedToken token;
  token.content = node.at("content").string();
  token.single_word = node.boolean_or("single_word", false);
  token.lstrip = node.boolean_or("lstrip", false);
  token.rstrip = node.boolean_or("rstrip", false);
  token.special = node.boolean_or("special", false);
  token.normalized = node.boolean_or("normalized", !token.special);
  return token;
}

// The added tokens with their ids, as `tokenizers` gives them: that of the model, else the next that is free.
class AddedReader {
 public:
  AddedReader(const TokenTable& model, std::vector<std::string>& warnings)
      : model_(model), next_(static_cast<int32_t>(model.entries().size())), warnings_(warnings) {}

  void read(const JsonNode& node) {
    AddedToken token = read_added_token(node);
    if (token.content.empty()) return;
    const auto known = index_.find(token.content);
    const int32_t in_model = model_.find(token.content);
    token.id = known != index_.end() ? tokens_[known->second].id : in_model != kNoToken ? in_model : next_++;
    const auto wanted = node.find("id");
    if (wanted && wanted->integer(0, kMostTokens) != token.id) {
      warnings_.push_back(
          fmt::format("{}: the id of the token is {}, not {}", node.path(), token.id, wanted->integer(0, kMostTokens)));
    }
    if (known != index_.end()) {
      token.special = token.special || tokens_[known->second].special;
      tokens_[known->second] = std::move(token);
    } else {
      index_.emplace(token.content, tokens_.size());
      tokens_.push_back(std::move(token));
    }
  }
  std::vector<AddedToken> take() { return std::move(tokens_); }

 private:
  const TokenTable& model_;
  int32_t next_;
  std::vector<std::string>& warnings_;
  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> index_;
};

// All tokens by id. Ids without a token are there as unused ones without text.
void fill_vocabulary(const TokenTable& model, const std::vector<AddedToken>& added, VocabularySpec& vocabulary) {
  int32_t size = 0;
  for (const auto& entry : model.entries()) size = std::max(size, entry.id + 1);
  for (const AddedToken& token : added) size = std::max(size, token.id + 1);
  vocabulary.tokens.resize(static_cast<size_t>(size));
  vocabulary.types.assign(static_cast<size_t>(size), static_cast<int32_t>(TokenType::kUnused));
  for (const auto& entry : model.entries()) {
    vocabulary.tokens[static_cast<size_t>(entry.id)] = entry.text;
    vocabulary.types[static_cast<size_t>(entry.id)] = static_cast<int32_t>(TokenType::kNormal);
  }
  for (const AddedToken& token : added) {
    vocabulary.tokens[static_cast<size_t>(token.id)] = token.content;
    vocabulary.types[static_cast<size_t>(token.id)] =
        static_cast<int32_t>(token.special ? TokenType::kControl : TokenType::kUserDefined);
  }
}

}  // namespace

TokenizerSpec read_tokenizer_json(const TokenizerFiles& files) {
  const std::string name = files.name + "/tokenizer.json";
  const ConfigFiles configs(files);
  const Json document = parse_sorted_json(*files.tokenizer_json, name);
  const JsonNode root(document, name);
  const std::string version = root.string_or("version", "1.0");
  if (version != "1.0") throw bad_input("{}.version: version '{}' is not supported", name, version);

  auto parts = std::make_shared<PipelineParts>();
  parts->model = make_model(root.at("model"));
  if (const auto node = root.find("normalizer")) parts->normalizer = make_normalizer(*node);
  if (const auto node = root.find("pre_tokenizer")) append_split_steps(*node, parts->steps);
  if (const auto node = root.find("decoder")) parts->decoder = Decoder(*node);
  if (!parts->steps.empty() && parts->steps.back()->spells_bytes() && parts->model->take_bytes())
    leave_bytes_to_model(parts->steps);

  TokenizerSpec spec;
  const TokenTable& model = parts->model->tokens();
  AddedReader reader(model, spec.vocabulary.notes);
  if (const auto node = root.find("added_tokens")) {
    for (const JsonNode& token : node->elements()) reader.read(token);
  }
  parts->added = reader.take();
  fill_vocabulary(model, parts->added, spec.vocabulary);
  spec.vocabulary.model = "tokenizer.json";
  spec.vocabulary.types_are_exact = true;
  spec.vocabulary.end_of_generation = files.end_of_generation;

  const auto find = [&](std::string_view text) {
    for (const AddedToken& token : parts->added) {
      if (token.content == text) return token.id;
    }
    return model.find(text);
  };
  spec.vocabulary.unknown = parts->model->unknown();
  name_special_tokens(configs, find, spec.vocabulary);
  if (const auto node = root.find("post_processor")) {
    SpecialTemplate special = read_special_template(*node, static_cast<int32_t>(spec.vocabulary.tokens.size()));
    spec.prefix = std::move(special.prefix);
    spec.suffix = std::move(special.suffix);
  }
  spec.make_codec = [parts](const Vocabulary& vocabulary) {
    const std::vector<int32_t>& ends = vocabulary.end_of_generation();
    for (AddedToken& token : parts->added) {
      token.structural =
          std::binary_search(ends.begin(), ends.end(), token.id) || structures_conversations(token.content);
    }
    return std::make_unique<Pipeline>(std::move(*parts), vocabulary);
  };
  return spec;
}

TokenizerSpec read_tokenizer_files(const TokenizerFiles& files) {
  if (files.tokenizer_json) return read_tokenizer_json(files);
  if (files.sentencepiece_model) return read_sentencepiece(files);
  throw bad_input("{}: has neither tokenizer.json nor a SentencePiece model (tokenizer.model)", files.name);
}

}  // namespace gabbro::text
