// A JSON Schema as a document: finds schemas by reference, and reads each of them into shapes. Every keyword is read,
// known to be an annotation, or refused with its JSON pointer.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>

#include "src/text/grammar/json/shape.h"

namespace gabbro::text::grammar {

struct SchemaNode {
  const SchemaJson* schema;
  std::string pointer;  // "#/properties/a"
};

class SchemaDocument {
 public:
  // `closed`: objects have no other properties than those that are listed, unless the schema says so.
  SchemaDocument(const SchemaJson& root, bool closed);
  SchemaDocument(const SchemaDocument&) = delete;
  SchemaDocument& operator=(const SchemaDocument&) = delete;

  NodeId root() const { return 0; }
  const SchemaNode& node(NodeId id) const { return nodes_[id]; }
  // The alternatives of a value that matches all of these. Throws bad_input for what is not supported.
  std::vector<Shape> shapes(const Conjunction& all);

  // Whether no value matches both. Set by the compiler of schemas, for oneOf.
  std::function<bool(NodeId, NodeId)> are_disjoint;

  [[noreturn]] static void refuse(const std::string& pointer, std::string_view why);

 private:
  friend class KeywordReader;
  struct Open {
    Shape shape;
    std::vector<NodeId> todo;
    std::set<NodeId> seen;
    std::vector<std::vector<NodeId>> groups;  // each needs one of its schemas
  };

  NodeId add(const SchemaJson& schema, std::string pointer);
  NodeId own(SchemaJson schema, std::string pointer);  // of a schema that is not in the document
  NodeId find(const std::string& reference, const std::string& from);
  void collect_anchors(const SchemaJson& schema, const std::string& pointer);
  void expand(Open open, std::vector<Shape>& found);
  bool read(NodeId id, Open& open);

  const SchemaJson& root_;
  const bool closed_;
  std::deque<SchemaNode> nodes_;
  std::map<std::string, NodeId> by_pointer_;
  std::deque<SchemaJson> owned_;
  std::map<std::string, std::pair<const SchemaJson*, std::string>> anchors_;
};

// "/a~b" as a step of a JSON pointer.
std::string pointer_step(std::string_view name);

}  // namespace gabbro::text::grammar
