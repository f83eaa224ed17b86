#include "src/text/grammar/json/schema_document.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/text/grammar/json/keywords.h"

namespace gabbro::text::grammar {
namespace {

constexpr size_t kMostShapes = 4096;

std::string unescaped_step(std::string_view step, const std::string& reference, const std::string& from) {
  std::string percent;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i] != '%') {
      percent += step[i];
      continue;
    }
    const std::string digits(step.substr(i + 1, 2));
    if (digits.size() != 2 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      SchemaDocument::refuse(from, fmt::format("the reference '{}' is broken", reference));
    percent += static_cast<char>(std::stoi(digits, nullptr, 16));
    i += 2;
  }
  std::string name;
  for (size_t i = 0; i < percent.size(); ++i) {
    if (percent[i] == '~' && i + 1 < percent.size()) {
      name += percent[++i] == '0' ? '~' : '/';
    } else {
      name += percent[i];
    }
  }
  return name;
}

}  // namespace

std::string pointer_step(std::string_view name) {
  std::string step = "/";
  for (const char c : name) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

TypeBit type_of(const SchemaJson& value) {
  if (value.is_null()) return kNullType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_number()) return kNumberType;
  if (value.is_string()) return kStringType;
  return value.is_array() ? kArrayType : kObjectType;
}

void SchemaDocument::refuse(const std::string& pointer, std::string_view why) {
  throw bad_input("JSON schema, {}: {}", pointer, why);
}

SchemaDocument::SchemaDocument(const SchemaJson& root, bool closed) : root_(root), closed_(closed) {
  add(root, "#");
  collect_anchors(root, "#");
}

void SchemaDocument::collect_anchors(const SchemaJson& schema, const std::string& pointer) {
  if (schema.is_array()) {
    for (size_t i = 0; i < schema.size(); ++i) collect_anchors(schema[i], fmt::format("{}/{}", pointer, i));
  }
  if (!schema.is_object()) return;
  if (const auto anchor = schema.find("$anchor"); anchor != schema.end() && anchor->is_string())
    anchors_.emplace(anchor->get<std::string>(), std::pair(&schema, pointer));
  for (const auto& [name, value] : schema.items()) {
    if (name != "enum" && name != "const") collect_anchors(value, pointer + pointer_step(name));
  }
}

NodeId SchemaDocument::add(const SchemaJson& schema, std::string pointer) {
  if (!schema.is_object() && !schema.is_boolean()) refuse(pointer, "expected a schema: an object, true or false");
  const auto [found, is_new] = by_pointer_.emplace(pointer, static_cast<NodeId>(nodes_.size()));
  if (is_new) nodes_.push_back({&schema, std::move(pointer)});
  return found->second;
}

NodeId SchemaDocument::own(SchemaJson schema, std::string pointer) {
  // Equal ones have one number, so that recursive schemas come back to what is compiled.
  const auto [found, is_new] = by_pointer_.emplace(pointer + " " + schema.dump(), static_cast<NodeId>(nodes_.size()));
  if (!is_new) return found->second;
  owned_.push_back(std::move(schema));
  nodes_.push_back({&owned_.back(), std::move(pointer)});
  return found->second;
}

NodeId SchemaDocument::find(const std::string& reference, const std::string& from) {
  std::string_view fragment = reference;
  if (const auto id = root_.find("$id"); root_.is_object() && id != root_.end() && id->is_string()) {
    if (const auto& base = id->get_ref<const std::string&>(); !base.empty() && fragment.starts_with(base))
      fragment.remove_prefix(base.size());
  }
  if (!fragment.empty() && fragment.front() != '#')
    refuse(from, fmt::format("the reference '{}' leaves the document", reference));
  if (!fragment.empty()) fragment.remove_prefix(1);
  if (fragment.empty()) return root();
  if (fragment.front() != '/') {
    const auto found = anchors_.find(std::string(fragment));
    if (found == anchors_.end()) refuse(from, fmt::format("the reference '{}' names no schema", reference));
    return add(*found->second.first, found->second.second);
  }
  const SchemaJson* at = &root_;
  std::string pointer = "#";
  while (!fragment.empty()) {
    fragment.remove_prefix(1);
    const std::string name = unescaped_step(fragment.substr(0, fragment.find('/')), reference, from);
    fragment.remove_prefix(std::min(fragment.find('/'), fragment.size()));
    pointer += pointer_step(name);
    if (at->is_object() && at->contains(name)) {
      at = &(*at)[name];
    } else if (at->is_array() && !name.empty() && name.size() < 7 &&
               name.find_first_not_of("0123456789") == name.npos && std::stoul(name) < at->size()) {
      at = &(*at)[std::stoul(name)];
    } else {
      refuse(from, fmt::format("the reference '{}' names no schema", reference));
    }
  }
  return add(*at, pointer);
}

std::vector<Shape> SchemaDocument::shapes(const Conjunction& all) {
  std::vector<Shape> found;
  Open open;
  open.todo.assign(all.rbegin(), all.rend());
  expand(std::move(open), found);
  return found;
}

// Appends the alternatives of what is open.
void SchemaDocument::expand(Open open, std::vector<Shape>& found) {
  while (!open.todo.empty()) {
    const NodeId id = open.todo.back();
    open.todo.pop_back();
    if (open.seen.insert(id).second && !read(id, open)) return;
    if (open.shape.types == 0) return;
  }
  if (open.groups.empty()) {
    if (found.size() >= kMostShapes) throw bad_input("the JSON schema has more than {} alternatives", kMostShapes);
    found.push_back(std::move(open.shape));
    return;
  }
  const std::vector<NodeId> group = std::move(open.groups.back());
  open.groups.pop_back();
  for (const NodeId one : group) {
    Open next = open;
    next.todo.push_back(one);
    expand(std::move(next), found);
  }
}

// False: no value matches.
bool SchemaDocument::read(NodeId id, Open& open) {
  const SchemaNode node = nodes_[id];
  if (node.schema->is_boolean()) return node.schema->get<bool>();
  KeywordReader(*this, node, open).read();
  return true;
}

}  // namespace gabbro::text::grammar
