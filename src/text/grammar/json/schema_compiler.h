// Turns the shapes of a schema into rules.
#pragma once

#include <map>
#include <optional>

#include "src/text/grammar/json/json_rules.h"
#include "src/text/grammar/json/schema_document.h"

namespace gabbro::text::grammar {

struct ObjectPlan;
class PropertyTable;

class SchemaCompiler {
 public:
  SchemaCompiler(Rules& rules, SchemaDocument& document, ValueSpelling spelling = {})
      : rules_(rules), json_(rules, std::move(spelling)), document_(document) {}

  // The rule of a value that matches all of these schemas.
  RuleId rule_of(Conjunction all);
  // Whether no value matches both, as far as it can be proved.
  bool are_disjoint(NodeId a, NodeId b, int depth = 0);

 private:
  ExprId value(Conjunction all);
  ExprId shape_expr(const Shape& shape);
  ExprId typed(const Shape& shape, TypeBit type);
  ExprId string(const StringShape& string);
  ExprId array(const ArrayShape& array);
  ExprId object(const ObjectShape& object);
  ExprId pairs_from(ObjectPlan& plan, size_t index, int32_t count);
  std::optional<ExprId> other_pair(const PropertyTable& table, const std::optional<CharDfa>& allowed);
  CharDfa names_dfa(const Conjunction& names, const std::string& pointer);
  std::vector<SchemaJson> matching_values(const Shape& shape);
  bool shapes_are_disjoint(const Shape& a, const Shape& b, int depth);
  bool objects_are_disjoint(const ObjectShape& a, const ObjectShape& b, int depth);

  Rules& rules_;
  JsonRules json_;
  SchemaDocument& document_;
  std::map<Conjunction, RuleId> known_;
};

// Characters of a text by its constraints; nothing: any text.
bool is_any_text(const StringShape& string);
CharDfa dfa_of_string(const Rules& rules, const StringShape& string);

}  // namespace gabbro::text::grammar
