// A pack: the files that test one model, as plain pytest that runs without Gabbro. Made of a configuration and the
// embedded tables and templates; nothing is read from disk, and the same input gives the same bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/testgen/type_table.h"

namespace gabbro::testgen {

// A configuration and where it is from.
struct Source {
  Json config;              // an object
  std::string name;         // of messages: a file, or the type
  bool is_default = false;  // the values of the type's class, and no model's
};

struct PackOptions {
  std::string task;                           // empty: the class that the configuration names, else the main one
  std::vector<std::string> sizes = {"tiny"};  // tiny, heads, true, full
  std::vector<std::string> card_sizes;        // more sizes, of tests on a card
  std::vector<std::string> dtypes = {"f32", "bf16", "f16"};
  std::string devices = "auto";
  std::vector<std::string> checks;  // empty: all that apply
  std::vector<std::string> without;
  std::vector<std::string> engines = {"transformers"};  // "gabbro" adds the check parity
  std::vector<int> lengths = {1, 31, 32, 33};           // of padding
  uint64_t seed = 0;
  std::string version, command;  // for the head of case.py
};

struct Pack {
  std::string type, model_class, task, family, recipe;
  std::vector<std::string> checks;
  std::vector<std::string> notes;
  std::map<std::string, std::string> files;  // by name
};

// The configuration of a type's class. Throws bad_input for a type that the table does not have, or that has no
// defaults.
Source default_source(const std::string& type);

// Throws bad_input, with the source's name, for a configuration that no test can be made of: no model_type, no class
// for the task, no recipe for an argument that forward() requires.
void check_source(const Source& source, const std::string& task);

// As check_source(); also for values of the configuration that cannot be made small.
Pack make_pack(const Source& source, const PackOptions& options);

// The folder of the code that packs share: in a pack, or next to several.
inline constexpr const char* kSharedFolder = "gabbro_testgen";

// The files of that folder by name, the same for all packs of this program.
std::map<std::string, std::string> shared_files();

// Every check there is, with one line about it; and every family.
const std::vector<std::pair<std::string, std::string>>& all_checks();
const std::vector<std::string>& all_families();

}  // namespace gabbro::testgen
