// For comparisons of grammars with other programs (tests/grammar/*.py): a JSON object a line on standard input, an
// answer a line on standard output. {"kind": "schema", "source": "...", "texts": ["..."]} gives {"accepts": [...],
// "begins": [...]} or {"error": "..."}. With "masks": true also, for each text, the tokens that may follow it and
// whether it may end: the vocabulary is that of the model in the first argument; {"tokens": true} gives its tokens in
// hex. With "endings": true, for each text, a short text that ends it, or null.
#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <utility>

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

// The brackets of a text of JSON that are open, and whether it ends in a string.
struct JsonPlace {
  int open = 0;
  bool in_string = false, is_escaped = false;

  void read(char c) {
    if (std::exchange(is_escaped, false)) return;
    if (c == '"') in_string = !in_string;
    is_escaped = in_string && c == '\\';
    if (!in_string && (c == '{' || c == '[')) ++open;
    if (!in_string && (c == '}' || c == ']')) --open;
  }
};

// A short text after which `text`, that of `state`, may end; null: it is too long. The search closes brackets first,
// and avoids new elements.
Json ending_of(grammar::Automaton& automaton, const std::string& text, grammar::Automaton::State state) {
  using State = grammar::Automaton::State;
  constexpr size_t kMostStates = 1'000'000;
  JsonPlace begin;
  for (const char c : text) begin.read(c);
  const auto cost_of = [](int byte) {
    return byte == '[' || byte == '{' ? 40 : byte == ',' ? 10 : byte <= ' ' ? 4 : 1;
  };
  struct Step {
    int cost;
    State state, from;
    int byte;
    JsonPlace place;
    bool operator<(const Step& other) const {
      return std::pair(place.open, cost) > std::pair(other.place.open, other.cost);
    }
  };
  std::map<State, std::pair<State, int>> reached;  // from a state by a byte
  std::priority_queue<Step> open;
  open.push({0, state, state, -1, begin});
  while (!open.empty() && reached.size() < kMostStates) {
    const Step step = open.top();
    open.pop();
    if (!reached.try_emplace(step.state, step.from, step.byte).second) continue;
    if (automaton.accepts(step.state)) {
      std::string ending;
      for (State at = step.state; at != state; at = reached.at(at).first)
        ending += static_cast<char>(reached.at(at).second);
      std::ranges::reverse(ending);
      return ending;
    }
    for (int byte = 0; byte < 256; ++byte) {
      const State next = automaton.next(step.state, static_cast<uint8_t>(byte));
      if (next == grammar::Automaton::kDead) continue;
      Step more{step.cost + cost_of(byte), next, step.state, byte, step.place};
      more.place.read(static_cast<char>(byte));
      open.push(more);
    }
  }
  return nullptr;
}

Json answer(const Json& asked, const std::shared_ptr<const grammar::TokenTrie>& trie) {
  const auto program = grammar::compile_format({kind_named(asked.at("kind")), asked.value("source", "")});
  grammar::MaskMaker maker(program, trie);
  grammar::Automaton& automaton = maker.automaton();
  Json result{
      {"accepts", Json::array()}, {"begins", Json::array()}, {"masks", Json::array()}, {"endings", Json::array()}};
  for (const Json& text : asked.at("texts")) {
    const grammar::Automaton::State end = automaton.next(automaton.start(), text.get<std::string>());
    const bool begins = end != grammar::Automaton::kDead;
    result["begins"].push_back(begins);
    result["accepts"].push_back(begins && automaton.accepts(end));
    if (asked.value("endings", false)) result["endings"].push_back(begins ? ending_of(automaton, text, end) : Json());
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
