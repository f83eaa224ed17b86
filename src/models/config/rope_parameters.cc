#include "src/models/config/rope_parameters.h"

#include <fmt/format.h>

#include <algorithm>

namespace gabbro::llm {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kParameters = "rope_parameters", *kScaling = "rope_scaling";
constexpr const char* kOriginal = "original_max_position_embeddings";

// A field of `object` that is there, and may be null.
const Json* find(const Json& object, std::string_view name) {
  const auto found = object.find(name);
  return found != object.end() ? &*found : nullptr;
}

bool is_set(const Json* value) { return value != nullptr && !value->is_null(); }

void set_default(Json& object, const char* name, const Json& value) {
  if (!object.contains(name)) object[name] = value;
}

// A value that Python takes for false is none.
bool is_empty(const Json* value) {
  return !is_set(value) || value->empty() || *value == false || *value == 0 || *value == "";
}

void require(const RopeFields& fields, const Json& rope, const std::string& prefix, const char* name) {
  if (!is_set(find(rope, name))) fields.refuse(prefix + name, "is missing");
}

// The type, the context that was trained, and checks; `prefix` is for messages.
void complete(const RopeFields& fields, const std::string& prefix, Json& rope) {
  const Json* const early = find(rope, "type");
  set_default(rope, "rope_type", early != nullptr ? *early : Json("default"));
  if (!rope["rope_type"].is_string()) fields.refuse(prefix + "rope_type", "is not a string");
  std::string type = rope["rope_type"].get<std::string>();
  if (const Json* renamed = find(fields.of_class, "renamed"); renamed != nullptr && renamed->contains(type)) {
    type = renamed->at(type).get<std::string>();
    rope["rope_type"] = type;
  }
  const Json* const refused = find(fields.of_class, "refused");
  if (refused != nullptr && std::ranges::any_of(*refused, [&](const Json& one) { return one == type; }))
    fields.refuse(prefix + "rope_type", fmt::format("is '{}', which models of this type do not have", type));
  if (type == "llama3" || type == "yarn" || type == "longrope") {
    const Json* original = find(fields.values, kOriginal);
    if (original == nullptr) original = find(fields.given, kOriginal);
    if (original != nullptr) {
      rope[kOriginal] = *original;
    } else if (const Json* longest = find(fields.values, "max_position_embeddings")) {
      set_default(rope, kOriginal, *longest);
    }
    require(fields, rope, prefix, kOriginal);
  }
  require(fields, rope, prefix, "rope_theta");
  if (type == "linear" || type == "dynamic" || type == "llama3") require(fields, rope, prefix, "factor");
  if (type == "yarn" && !rope.contains("factor")) fields.refuse(prefix + "factor", "is missing");
  if (type == "llama3") {
    require(fields, rope, prefix, "low_freq_factor");
    require(fields, rope, prefix, "high_freq_factor");
  }
  if (type == "longrope") {
    require(fields, rope, prefix, "short_factor");
    require(fields, rope, prefix, "long_factor");
  }
}

// The part of a head that is rotated, which some classes read for scaled contexts alone.
void settle_fraction(const RopeFields& fields, Json& rope) {
  const auto found = rope.find("partial_rotary_factor");
  if (found == rope.end() || found->is_null() || fields.of_class.contains("fraction_in_default")) return;
  if (rope["rope_type"] != "default" && *found != 1)
    fields.refuse(std::string(kParameters) + ".partial_rotary_factor", "is not 1, which this type does not support");
  rope.erase(found);
}

void check_numbers(const RopeFields& fields, const std::string& prefix, const Json& rope) {
  for (const char* name : {"rope_theta", "factor", "attention_factor", "beta_fast", "beta_slow", "low_freq_factor",
                           "high_freq_factor", "mscale", "mscale_all_dim", kOriginal, "partial_rotary_factor"}) {
    const Json* const value = find(rope, name);
    if (is_set(value) && !value->is_number()) fields.refuse(prefix + name, "is not a number");
  }
}

Json object_of(const RopeFields& fields, const char* name) {
  const Json* const value = find(fields.given, name);
  if (!value->is_object()) fields.refuse(name, "is not an object");
  return *value;
}

Json flat(const RopeFields& fields) {
  const Json& of_class = fields.of_class;
  Json rope = Json::object();
  if (!is_empty(find(fields.given, kScaling))) {
    rope = object_of(fields, kScaling);
  } else if (is_set(find(fields.given, kParameters))) {
    rope = object_of(fields, kParameters);
  } else if (const Json* unset = find(of_class, "unset")) {
    rope = *unset;
  }
  const Json* theta = find(of_class, "theta");
  if (const Json* name = find(of_class, "theta_name")) {
    if (const Json* given = find(fields.given, name->get<std::string>())) theta = given;
  }
  set_default(rope, "rope_theta", *theta);
  const Json* fraction = find(of_class, "fraction");
  if (const Json* name = find(of_class, "fraction_name")) {
    if (const Json* given = find(fields.given, name->get<std::string>())) fraction = given;
  }
  if (is_set(fraction)) set_default(rope, "partial_rotary_factor", *fraction);
  complete(fields, std::string(kParameters) + ".", rope);
  settle_fraction(fields, rope);
  check_numbers(fields, std::string(kParameters) + ".", rope);
  return rope;
}

// One object for the layers that see everything, and one for those with a window.
Json nested(const RopeFields& fields) {
  constexpr const char *kFull = "full_attention", *kLocal = "sliding_attention";
  Json rope = Json::object();
  if (is_set(find(fields.given, kParameters))) {
    rope = object_of(fields, kParameters);
    if (is_set(find(fields.given, kScaling))) require(fields, rope, std::string(kParameters) + ".", kFull);
  }
  for (const char* name : {kFull, kLocal}) {
    Json& one = rope[name];
    if (one.is_null()) one = Json{{"rope_type", "default"}};
    if (!one.is_object()) fields.refuse(std::string(kParameters) + "." + name, "is not an object");
  }
  if (is_set(find(fields.given, kScaling))) rope[kFull].update(object_of(fields, kScaling));
  const auto base = [&](const char* of_class, const char* name) {
    const Json* const given = find(fields.given, name);
    return given != nullptr ? *given : fields.of_class.at(of_class);
  };
  set_default(rope[kFull], "rope_theta", base("theta", "rope_theta"));
  set_default(rope[kLocal], "rope_theta",
              fields.of_class.contains("local_theta_name")
                  ? base("local_theta", fields.of_class["local_theta_name"].get_ref<const std::string&>().c_str())
                  : fields.of_class.at("local_theta"));
  for (const char* name : {kFull, kLocal}) {
    complete(fields, fmt::format("{}.{}.", kParameters, name), rope[name]);
    rope[name].erase("partial_rotary_factor");
    check_numbers(fields, fmt::format("{}.{}.", kParameters, name), rope[name]);
  }
  return rope;
}

}  // namespace

void check_foreign_rope(const Json& given, const std::function<void(const std::string&, const std::string&)>& refuse) {
  const char* const name = is_empty(find(given, kScaling)) ? kParameters : kScaling;
  const Json* const rope = find(given, name);
  if (is_empty(rope) || !rope->is_object()) return;
  const Json* const early = find(*rope, "type");
  const Json type = rope->value("rope_type", early != nullptr ? *early : Json("default"));
  const bool converted = name == kScaling && !is_empty(find(given, "rope_theta"));
  std::vector<const char*> required;
  if (type == "linear" || type == "dynamic" || type == "yarn" || type == "llama3") required.push_back("factor");
  if (type == "llama3") required.insert(required.end(), {"low_freq_factor", "high_freq_factor"});
  if (type == "longrope") required.insert(required.end(), {"short_factor", "long_factor"});
  if (!converted && type == "llama3") required.push_back("rope_theta");
  if (!converted && (type == "llama3" || type == "yarn" || type == "longrope")) required.push_back(kOriginal);
  for (const char* part : required) {
    if (!rope->contains(part)) refuse(fmt::format("{}.{}", name, part), "is missing");
  }
}

Json standard_rope_parameters(const RopeFields& fields) {
  return fields.of_class.contains("local_theta") ? nested(fields) : flat(fields);
}

}  // namespace gabbro::llm
