#include "src/server/routes/request_schemas.h"

#include <algorithm>
#include <utility>

namespace gabbro::server {
namespace {

// Further members are allowed everywhere: clients send fields of many dialects.
constexpr const char* kSchemas = R"json({
"Sampling": {"type": "object", "properties": {
  "temperature": {"type": "number", "minimum": 0, "maximum": 2},
  "top_p": {"type": "number", "minimum": 0, "maximum": 1},
  "top_k": {"type": "integer", "minimum": -1, "maximum": 2147483647},
  "min_p": {"type": "number", "minimum": 0, "maximum": 1},
  "typical_p": {"type": "number", "minimum": 0, "maximum": 1},
  "repeat_penalty": {"type": "number", "minimum": 0.01, "maximum": 100},
  "repeat_last_n": {"type": "integer", "minimum": -1, "maximum": 2147483647},
  "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
  "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
  "seed": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807},
  "stop": {"oneOf": [{"type": "string", "minLength": 1, "maxLength": 256},
    {"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1, "maxLength": 256}}]}}},
"Text": {"type": "string", "pattern": "^[^\\u0000]*$"},
"Content": {"oneOf": [{"$ref": "#/components/schemas/Text"}, {"type": "array", "maxItems": 1000, "items": {"type": "object", "required": ["text"],
  "properties": {"type": {"enum": ["text", "input_text", "output_text", null]}, "text": {"$ref": "#/components/schemas/Text"}}}}]},
"Message": {"anyOf": [
  {"type": "object", "required": ["role", "content"], "properties": {
    "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
    "content": {"$ref": "#/components/schemas/Content"}, "name": {"type": "string"}}},
  {"type": "object", "required": ["role"], "properties": {
    "role": {"enum": ["assistant"]},
    "content": {"$ref": "#/components/schemas/Content"}, "name": {"type": "string"}}}]},
"TokenIds": {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
"Duration": {"oneOf": [{"type": "number"},
  {"type": "string", "pattern": "^[-+]?([0-9]{1,18}|([0-9]{1,9}([.][0-9]{1,8})?(h|m|s|ms|us|ns)){1,9})$"}]},
"ChatRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["messages"], "properties": {
  "model": {"type": "string"},
  "messages": {"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/Message"}},
  "stream": {"type": "boolean"},
  "stream_options": {"type": "object", "properties": {"include_usage": {"type": ["boolean", "null"]}}},
  "n": {"type": "integer", "minimum": 1, "maximum": 128},
  "max_tokens": {"type": "integer", "minimum": -1, "maximum": 16777216},
  "max_completion_tokens": {"type": "integer", "minimum": 0, "maximum": 16777216},
  "priority": {"type": "integer", "minimum": -8, "maximum": 8},
  "reasoning_effort": {"type": "string"}}}]},
"CompletionRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["prompt"], "properties": {
  "model": {"type": "string"},
  "prompt": {"oneOf": [{"type": "string", "minLength": 1}, {"$ref": "#/components/schemas/TokenIds"},
    {"type": "array", "minItems": 1, "maxItems": 128, "items":
      {"oneOf": [{"type": "string", "minLength": 1}, {"$ref": "#/components/schemas/TokenIds"}]}}]},
  "stream": {"type": "boolean"},
  "n": {"type": "integer", "minimum": 1, "maximum": 128},
  "max_tokens": {"type": "integer", "minimum": -1, "maximum": 16777216},
  "echo": {"type": "boolean"}}}]},
"AnthropicMessage": {"type": "object", "required": ["role", "content"], "properties": {
  "role": {"enum": ["user", "assistant", "system"]}, "content": {"$ref": "#/components/schemas/AnthropicText"}}},
"AnthropicText": {"oneOf": [{"$ref": "#/components/schemas/Text"}, {"type": "array", "maxItems": 1000, "items": {"type": "object", "required": ["type", "text"],
  "properties": {"type": {"enum": ["text"]}, "text": {"$ref": "#/components/schemas/Text"}}}}]},
"MessagesRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["messages", "max_tokens"], "properties": {
  "model": {"type": "string"},
  "max_tokens": {"type": "integer", "minimum": 1, "maximum": 16777216},
  "messages": {"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/AnthropicMessage"}},
  "system": {"$ref": "#/components/schemas/AnthropicText"},
  "stream": {"type": "boolean"}}}]},
"CountTokensRequest": {"type": "object", "required": ["messages"], "properties": {
  "model": {"type": "string"},
  "messages": {"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/AnthropicMessage"}},
  "system": {"$ref": "#/components/schemas/AnthropicText"}}},
"ResponseItem": {"type": "object", "required": ["role", "content"], "properties": {
  "type": {"enum": ["message"]}, "role": {"enum": ["system", "developer", "user", "assistant"]},
  "content": {"$ref": "#/components/schemas/Content"}}},
"ResponseInput": {"type": "object", "required": ["input"], "properties": {
  "model": {"type": "string"},
  "input": {"oneOf": [{"$ref": "#/components/schemas/Text"},
    {"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/ResponseItem"}}]},
  "instructions": {"$ref": "#/components/schemas/Text"}}},
"ResponseRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"$ref": "#/components/schemas/ResponseInput"},
  {"type": "object", "required": ["input"], "properties": {
  "stream": {"type": "boolean"},
  "max_output_tokens": {"type": "integer", "minimum": 1, "maximum": 16777216}}}]},
"LlamaRequest": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "required": ["prompt"], "properties": {
  "model": {"type": "string"},
  "prompt": {"oneOf": [{"type": "string", "minLength": 1}, {"$ref": "#/components/schemas/TokenIds"}]},
  "n_predict": {"type": "integer", "minimum": -2, "maximum": 16777216},
  "n_probs": {"type": "integer", "minimum": 0, "maximum": 20},
  "stream": {"type": "boolean"}, "return_tokens": {"type": "boolean"}}}]},
"EmbeddingRequest": {"type": "object", "required": ["input"], "properties": {
  "model": {"type": "string"},
  "input": {"oneOf": [{"type": "string", "minLength": 1}, {"$ref": "#/components/schemas/TokenIds"},
    {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"type": "string", "minLength": 1}},
    {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"$ref": "#/components/schemas/TokenIds"}}]},
  "encoding_format": {"enum": ["float", "base64"]},
  "dimensions": {"type": "integer", "minimum": 1, "maximum": 65536}}},
"OllamaChatRequest": {"type": "object", "required": ["model"], "properties": {
  "model": {"type": "string"},
  "messages": {"type": "array", "maxItems": 10000, "items": {"$ref": "#/components/schemas/Message"}},
  "stream": {"type": "boolean"},
  "options": {"$ref": "#/components/schemas/OllamaOptions"},
  "keep_alive": {"$ref": "#/components/schemas/Duration"},
  "think": {"type": ["boolean", "string"]}}},
"OllamaGenerateRequest": {"type": "object", "required": ["model"], "properties": {
  "model": {"type": "string"},
  "prompt": {"$ref": "#/components/schemas/Text"}, "system": {"$ref": "#/components/schemas/Text"},
  "stream": {"type": "boolean"}, "raw": {"type": "boolean"},
  "options": {"$ref": "#/components/schemas/OllamaOptions"},
  "keep_alive": {"$ref": "#/components/schemas/Duration"}}},
"OllamaOptions": {"allOf": [{"$ref": "#/components/schemas/Sampling"}, {"type": "object", "properties": {
  "num_predict": {"type": "integer", "minimum": -2, "maximum": 16777216},
  "num_ctx": {"type": "integer", "minimum": 0, "maximum": 16777216}}}]},
"OllamaEmbedRequest": {"type": "object", "required": ["model", "input"], "properties": {
  "model": {"type": "string"},
  "input": {"oneOf": [{"$ref": "#/components/schemas/Text"}, {"type": "array", "maxItems": 2048, "items": {"$ref": "#/components/schemas/Text"}}]}}},
"OllamaOldEmbedRequest": {"type": "object", "required": ["model", "prompt"], "properties": {
  "model": {"type": "string"}, "prompt": {"$ref": "#/components/schemas/Text"}}},
"ModelRequest": {"type": "object", "required": ["model"], "properties": {"model": {"type": "string"}}},
"TokenizeRequest": {"type": "object", "required": ["content"], "properties": {
  "model": {"type": "string"}, "content": {"$ref": "#/components/schemas/Text"},
  "add_special": {"type": "boolean"}, "parse_special": {"type": "boolean"}, "with_pieces": {"type": "boolean"}}},
"DetokenizeRequest": {"type": "object", "required": ["tokens"], "properties": {
  "model": {"type": "string"}, "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}}},
"TemplateRequest": {"type": "object", "required": ["messages"], "properties": {
  "model": {"type": "string"},
  "messages": {"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/Message"}}}},
"RerankRequest": {"type": "object", "required": ["query", "documents"], "properties": {
  "model": {"type": "string"}, "query": {"$ref": "#/components/schemas/Text"},
  "documents": {"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/Text"}},
  "top_n": {"type": "integer", "minimum": 1, "maximum": 10000}, "return_documents": {"type": "boolean"}}},
"ScoreRequest": {"type": "object", "required": ["text_1", "text_2"], "properties": {
  "model": {"type": "string"},
  "text_1": {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
  "text_2": {"oneOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]}}}
})json";

// Paths by their ends: aliases share a schema.
constexpr std::pair<std::string_view, const char*> kBodies[] = {
    {"/chat/completions", "ChatRequest"},
    {"/messages", "MessagesRequest"},
    {"/messages/count_tokens", "CountTokensRequest"},
    {"/responses/input_tokens", "ResponseInput"},
    {"/responses", "ResponseRequest"},
    {"/completion", "LlamaRequest"},
    {"/completions", "CompletionRequest"},
    {"/api/embeddings", "OllamaOldEmbedRequest"},
    {"/api/embed", "OllamaEmbedRequest"},
    {"/embeddings", "EmbeddingRequest"},
    {"/api/chat", "OllamaChatRequest"},
    {"/api/generate", "OllamaGenerateRequest"},
    {"/api/show", "ModelRequest"},
    {"/detokenize", "DetokenizeRequest"},
    {"/tokenize", "TokenizeRequest"},
    {"/apply-template", "TemplateRequest"},
    {"/rerank", "RerankRequest"},
    {"/reranking", "RerankRequest"},
    {"/score", "ScoreRequest"},
};

// null is the same as a missing field, so each that is not required may have it.
void allow_null(Json& schema) {
  for (const char* const parts : {"allOf", "anyOf"}) {
    if (!schema.contains(parts)) continue;
    for (Json& part : schema[parts]) allow_null(part);
  }
  if (!schema.contains("properties")) return;
  const Json required = schema.value("required", Json::array());
  for (const auto& [name, property] : schema["properties"].items()) {
    if (std::ranges::find(required, Json(name)) == required.end())
      property = {{"anyOf", Json::array({property, {{"type", "null"}}})}};
  }
}

}  // namespace

const Json& request_schemas() {
  static const Json kNamed = [] {
    Json named = Json::parse(kSchemas);
    for (Json& schema : named) allow_null(schema);
    return named;
  }();
  return kNamed;
}

Json request_schema_of(std::string_view path) {
  const auto found = std::ranges::find_if(kBodies, [&](const auto& body) { return path.ends_with(body.first); });
  if (found == std::end(kBodies)) return {{"type", "object"}};
  return {{"$ref", std::string("#/components/schemas/") + found->second}};
}

}  // namespace gabbro::server
