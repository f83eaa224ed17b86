// The properties of an object by all schemas that it has to match.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/text/grammar/json/schema_document.h"

namespace gabbro::text::grammar {

class PropertyTable {
 public:
  // The shape outlives it.
  PropertyTable(const Rules& rules, const ObjectShape& shape);

  // Listed names in the schemas' order, then required ones that are not listed.
  const std::vector<std::string>& names() const { return names_; }
  bool is_required(const std::string& name) const { return required_.contains(name); }
  // The patterns of patternProperties. Throws bad_input if a name may match two of them.
  const std::map<std::string, CharDfa>& patterns() const { return patterns_; }
  void require_disjoint_patterns(const Rules& rules) const;

  // The schemas of a property with this name, of one that is not listed and matches this pattern only, and of any
  // other.
  Conjunction schemas_of_name(const std::string& name) const;
  Conjunction schemas_of_pattern(const std::string& pattern) const;
  Conjunction schemas_of_others() const;

 private:
  const ObjectShape& shape_;
  std::vector<std::string> names_;
  std::set<std::string> required_;
  std::vector<std::multimap<std::string, NodeId>> listed_;  // by set
  std::map<std::string, CharDfa> patterns_;
};

}  // namespace gabbro::text::grammar
