// For comparisons of grammars with other programs (tests/grammar/*.py): a JSON object a line on standard input, an
// answer a line on standard output. {"kind": "schema", "source": "...", "texts": ["..."]} gives {"accepts": [...],
// "begins": [...]} or {"error": "..."}. With "masks": true also, for each text, the tokens that may follow it and
// whether it may end: the vocabulary is that of the model in the first argument; {"tokens": true} gives its tokens in
// hex.
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "src/engine/model_text.h"
#include "src/formats/checkpoint.h"
#include "src/text/grammar/matcher.h"
#include "src/text/tokenizer.h"

namespace {

using gabbro::OutputFormat;
using Json = nlohmann::json;
namespace grammar = gabbro::text::grammar;

OutputFormat::Kind kind_named(const std::string& name) {
  using Kind = OutputFormat::Kind;
  const std::pair<const char*, Kind> kinds[] = {{"object", Kind::kJsonObject}, {"closed", Kind::kClosedJsonSchema},
                                                {"regex", Kind::kRegex},       {"grammar", Kind::kGrammar},
                                                {"choice", Kind::kChoice},     {"schema", Kind::kJsonSchema}};
  for (const auto& [known, kind] : kinds) {
    if (name == known) return kind;
  }
  return Kind::kText;
}

Json tokens_of(const grammar::TokenTrie& trie) {
  Json tokens = Json::array();
  for (int32_t token = 0; static_cast<size_t>(token) < trie.size(); ++token) {
    std::string hex;
    for (const char c : trie.piece(token)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
    tokens.push_back(hex);
  }
  return tokens;
}

Json answer(const Json& asked, const std::shared_ptr<const grammar::TokenTrie>& trie) {
  const auto program = grammar::compile_format({kind_named(asked.at("kind")), asked.value("source", "")});
  grammar::MaskMaker maker(program, trie);
  grammar::Automaton& automaton = maker.automaton();
  Json result{{"accepts", Json::array()}, {"begins", Json::array()}, {"masks", Json::array()}};
  for (const Json& text : asked.at("texts")) {
    const grammar::Automaton::State end = automaton.next(automaton.start(), text.get<std::string>());
    const bool begins = end != grammar::Automaton::kDead;
    result["begins"].push_back(begins);
    result["accepts"].push_back(begins && automaton.accepts(end));
    if (!asked.value("masks", false)) continue;
    Json allowed = Json::array();
    for (int32_t token = 0; begins && static_cast<size_t>(token) < trie->size(); ++token) {
      if (maker.mask(end)->has(token)) allowed.push_back(token);
    }
    result["masks"].push_back(std::move(allowed));
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  auto trie = std::make_shared<const grammar::TokenTrie>(std::move(pieces));
  if (argc > 1) {
    const gabbro::text::Tokenizer tokenizer = gabbro::read_tokenizer(gabbro::Checkpoint::open(argv[1]));
    trie = std::make_shared<const grammar::TokenTrie>(grammar::make_token_trie(tokenizer));
  }
  for (std::string line; std::getline(std::cin, line);) {
    const Json asked = Json::parse(line);
    Json result;
    try {
      result = asked.value("tokens", false) ? tokens_of(*trie) : answer(asked, trie);
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return 0;
}
