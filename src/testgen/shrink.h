// Makes small configurations of real ones by the names of their fields. Nothing is known of single models here:
// data/shrink.json has the rules, and data/overrides.json what the rules get wrong.
#pragma once

#include <string>
#include <vector>

#include "src/testgen/type_table.h"

namespace gabbro::testgen {

// kTiny: a model of about 100,000 parameters that runs in milliseconds. kHeads: as kTiny, with heads of the real size,
// at most 256. kTrue: two layers with the real widths, which is what kernels are chosen by. kFull: unchanged.
enum class Size { kTiny, kHeads, kTrue, kFull };

Size parse_size(const std::string& name);  // throws bad_input

struct Shrunk {
  Json config;
  std::vector<std::string> changes;  // "hidden_size: 4096 -> 64", in the order of the fields
};

// `config` is an object, with configurations of parts as objects in it. Throws bad_input, with `name` and the field,
// for numbers that are out of range.
Shrunk shrink(const Json& config, Size size, const std::string& name);

}  // namespace gabbro::testgen
