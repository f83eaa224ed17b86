// Reads the keywords of one schema into a shape.
#pragma once

#include <string>
#include <vector>

#include "src/text/grammar/json/schema_document.h"

namespace gabbro::text::grammar {

class KeywordReader {
 public:
  KeywordReader(SchemaDocument& document, const SchemaNode& node, SchemaDocument::Open& open)
      : document_(document), schema_(*node.schema), pointer_(node.pointer), open_(open), shape_(open.shape) {}
  void read();

 private:
  using Read = void (KeywordReader::*)(const SchemaJson& value, const std::string& at);
  struct Keyword {
    const char* name;
    Read read;
  };
  static const Keyword* find(std::string_view name);

  void annotation(const SchemaJson&, const std::string&) {}
  void sibling(const SchemaJson&, const std::string&) {}  // read with another keyword
  void unsupported(const SchemaJson& value, const std::string& at);
  void type(const SchemaJson& value, const std::string& at);
  void values(const SchemaJson& value, const std::string& at);
  void constant(const SchemaJson& value, const std::string& at);
  void reference(const SchemaJson& value, const std::string& at);
  void all_of(const SchemaJson& value, const std::string& at);
  void any_of(const SchemaJson& value, const std::string& at);
  void one_of(const SchemaJson& value, const std::string& at);
  void minimum(const SchemaJson& value, const std::string& at);
  void maximum(const SchemaJson& value, const std::string& at);
  void exclusive_minimum(const SchemaJson& value, const std::string& at);
  void exclusive_maximum(const SchemaJson& value, const std::string& at);
  void multiple_of(const SchemaJson& value, const std::string& at);
  void min_length(const SchemaJson& value, const std::string& at);
  void max_length(const SchemaJson& value, const std::string& at);
  void pattern(const SchemaJson& value, const std::string& at);
  void format(const SchemaJson& value, const std::string& at);
  void prefix_items(const SchemaJson& value, const std::string& at);
  void items(const SchemaJson& value, const std::string& at);
  void min_items(const SchemaJson& value, const std::string& at);
  void max_items(const SchemaJson& value, const std::string& at);
  void unique_items(const SchemaJson& value, const std::string& at);
  void required(const SchemaJson& value, const std::string& at);
  void property_names(const SchemaJson& value, const std::string& at);
  void min_properties(const SchemaJson& value, const std::string& at);
  void max_properties(const SchemaJson& value, const std::string& at);
  void dependent_required(const SchemaJson& value, const std::string& at);
  void dependent_schemas(const SchemaJson& value, const std::string& at);
  void dependencies(const SchemaJson& value, const std::string& at);
  void unevaluated(const SchemaJson& value, const std::string& at);

  void read_properties();
  void read_elements();
  void depend_on(const std::string& name, NodeId schema, const std::string& at);
  void set_least(const Decimal& value, bool exclusive);
  void set_most(const Decimal& value, bool exclusive);
  std::vector<NodeId> schemas(const SchemaJson& value, const std::string& at);
  int32_t count(const SchemaJson& value, const std::string& at) const;
  const std::string& text(const SchemaJson& value, const std::string& at) const;
  const SchemaJson* member(const char* name) const;
  std::string place(const char* name) const { return pointer_ + "/" + name; }
  bool is_alone() const;  // without keywords that apply other schemas to the same value

  SchemaDocument& document_;
  const SchemaJson& schema_;
  const std::string pointer_;
  SchemaDocument::Open& open_;
  Shape& shape_;
};

}  // namespace gabbro::text::grammar
