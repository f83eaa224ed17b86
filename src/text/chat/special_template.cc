#include "src/text/chat/special_template.h"

#include "src/base/error.h"

namespace gabbro::text {
namespace {

// ["[SEP]", 102]
int32_t pair_id(const JsonNode& node, int32_t size) {
  const auto pair = node.elements();
  if (pair.size() != 2) throw bad_input("{}: is not a token and its id", node.path());
  return static_cast<int32_t>(pair[1].integer(0, size - 1));
}

SpecialTemplate read_pieces(const JsonNode& node, int32_t size) {
  SpecialTemplate out;
  bool seen = false;
  for (const JsonNode& piece : node.at("single").elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      if (seen || sequence->at("id").string() != "A")
        throw bad_input("{}: a template with another sequence than one A is not supported", piece.path());
      seen = true;
      continue;
    }
    const JsonNode name = piece.at("SpecialToken").at("id");
    const JsonNode token = node.at("special_tokens").at(name.string());
    for (const JsonNode& id : token.at("ids").elements())
      (seen ? out.suffix : out.prefix).push_back(static_cast<int32_t>(id.integer(0, size - 1)));
  }
  if (!seen) throw bad_input("{}.single: the template has no sequence", node.path());
  return out;
}

}  // namespace

SpecialTemplate read_special_template(const JsonNode& node, int32_t size) {
  const std::string& type = node.at("type").string();
  if (type == "ByteLevel") return {};  // changes offsets alone
  if (type == "BertProcessing" || type == "RobertaProcessing")
    return {{pair_id(node.at("cls"), size)}, {pair_id(node.at("sep"), size)}};
  if (type == "TemplateProcessing") return read_pieces(node, size);
  if (type == "Sequence") {
    SpecialTemplate all;  // each goes around what those before have made
    for (const JsonNode& processor : node.at("processors").elements()) {
      const SpecialTemplate one = read_special_template(processor, size);
      all.prefix.insert(all.prefix.begin(), one.prefix.begin(), one.prefix.end());
      all.suffix.insert(all.suffix.end(), one.suffix.begin(), one.suffix.end());
    }
    return all;
  }
  throw bad_input("{}.type: post-processor '{}' is not supported", node.path(), type);
}

}  // namespace gabbro::text
