// The time of compilations and of masks: `grammar_bench VOCABULARY [ROUNDS]`, in processor time of one thread.
// VOCABULARY: a model's GGUF file, or a file of tiktoken, as Llama 3's tokenizer.model in PyPI's llama-models. Texts
// are random walks of the grammar's tokens, so that states are new ones mostly. Formats: schemas, and calls of tools in
// each kind of form.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "src/base/processor_time.h"
#include "src/engine/model_text.h"
#include "src/formats/checkpoint.h"
#include "src/text/base64.h"
#include "src/text/grammar/matcher.h"
#include "src/text/tokenizer.h"

namespace {

using gabbro::OutputFormat;
namespace grammar = gabbro::text::grammar;

constexpr const char* kSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8}},
        "required": ["name", "age"], "additionalProperties": false})",
    R"({"type": "object", "properties": {"title": {"type": "string", "maxLength": 200}, "body": {"type": "string", "minLength": 20},
        "score": {"type": "number"}, "kind": {"enum": ["note", "task", "event", "reminder"]}, "when": {"type": "string", "format": "date-time"}}})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["value", "children"], "additionalProperties": false}},
        "$ref": "#/$defs/node"})",
    R"({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}})", R"({})"};

constexpr const char* kTools = R"([
    {"name": "read_file", "strict": true, "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "offset": {"type": "integer"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 2000}}, "required": ["path"]}},
    {"name": "edit_file", "strict": true, "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "old_text": {"type": "string"},
        "new_text": {"type": "string"}, "all": {"type": "boolean"}}, "required": ["path", "old_text", "new_text"]}},
    {"name": "query", "parameters": {"type": "object", "properties": {"columns": {"type": "array", "items": {"type": "string"}},
        "where": {"type": "array", "items": {"type": "object", "properties": {"column": {"type": "string"}, "value": {"type": ["string", "number", "null"]}},
        "required": ["column", "value"]}}, "order": {"enum": ["up", "down"]}}, "required": ["columns"]}}])";
// The kinds of forms: JSON in tags, JSON in a list, a name and JSON, parameters in tags, Python's form, Gemma's.
constexpr const char* kCallFormats[] = {"hermes", "generic", "mistral",  "qwen_tags",
                                        "glm",    "dsml",    "pythonic", "gemma4"};

std::vector<OutputFormat> schemas() {
  std::vector<OutputFormat> formats;
  for (const char* const schema : kSchemas) formats.push_back({OutputFormat::Kind::kJsonSchema, schema});
  return formats;
}

// Required calls, and any text that may have calls.
std::vector<OutputFormat> calls() {
  std::vector<OutputFormat> formats;
  for (const char* const format : kCallFormats) {
    for (const char* const required : {"true", "false"}) {
      formats.push_back({OutputFormat::Kind::kToolCalls,
                         fmt::format(R"({{"format": "{}", "required": {}, "tools": {}}})", format, required, kTools)});
    }
  }
  return formats;
}

grammar::TokenTrie read_vocabulary(const std::string& path) {
  if (path.ends_with(".gguf")) return grammar::make_token_trie(gabbro::read_tokenizer(gabbro::Checkpoint::open(path)));
  std::vector<std::string> pieces;
  std::ifstream file(path);
  for (std::string base64, rank; file >> base64 >> rank;) pieces.push_back(gabbro::text::decode_base64(base64, path));
  return grammar::TokenTrie(std::move(pieces));
}

double now() { return gabbro::thread_processor_seconds(); }
double micros(double from) { return (now() - from) * 1e6; }

void report(const char* name, std::vector<double> times) {
  std::ranges::sort(times);
  double sum = 0;
  for (const double one : times) sum += one;
  const auto at = [&](double part) { return times[static_cast<size_t>(part * static_cast<double>(times.size() - 1))]; };
  fmt::print("{:8} {:7} times: mean {:8.1f} us, p50 {:8.1f}, p99 {:8.1f}, p99.9 {:8.1f}, max {:8.1f}\n", name,
             times.size(), sum / static_cast<double>(times.size()), at(0.5), at(0.99), at(0.999), times.back());
}

// The times of all these formats.
void measure(const char* name, const std::vector<OutputFormat>& formats,
             const std::shared_ptr<const grammar::TokenTrie>& trie, int rounds) {
  std::vector<double> compiles, masks;
  std::mt19937 random(1);
  for (int round = 0; round < rounds; ++round) {
    for (const OutputFormat& format : formats) {
      double start = now();
      const auto program = grammar::compile_format(format);
      compiles.push_back(micros(start));
      grammar::Matcher matcher(std::make_shared<grammar::SharedMasks>(program, trie));
      for (int step = 0; step < 200 && !matcher.is_complete(); ++step) {
        start = now();
        const auto mask = matcher.mask();
        masks.push_back(micros(start));
        int32_t token = 0;
        do token = static_cast<int32_t>(random() % trie->size());
        while (!mask->has(token));
        matcher.accept(token);
      }
    }
  }
  fmt::print("{}\n", name);
  report("compile", compiles);
  report("mask", masks);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return fmt::print(stderr, "usage: grammar_bench VOCABULARY [ROUNDS]\n"), 2;
  const int rounds = argc > 2 ? std::stoi(argv[2]) : 20;
  const double start = now();
  const auto trie = std::make_shared<const grammar::TokenTrie>(read_vocabulary(argv[1]));
  fmt::print("{} tokens, {} nodes, trie in {:.0f} ms\n", trie->size(), trie->nodes().size(), micros(start) / 1000);
  measure("schemas", schemas(), trie, rounds);
  measure("calls of tools", calls(), trie, rounds);
  return 0;
}
