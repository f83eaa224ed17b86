// The importance matrix of a conversion: weights of its tensors, and entries that do not fit, as llama-quantize treats
// them. Private to convert.cc.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "src/convert/convert.h"

namespace gabbro::llm {

class ConvertImportance {
 public:
  // Throws bad_input if the type needs a matrix and there is none.
  explicit ConvertImportance(const ConvertOptions& options);

  // Weights [E, columns] of a tensor; empty: equal ones. Throws bad_input for an entry of another size, and if the
  // tensor's format needs an entry that is missing.
  std::vector<float> weights(const PlannedTensor& planned);

  // A line each for entries that are missing or fit no tensor, after all tensors. Throws bad_input if none fits.
  std::vector<std::string> warnings() const;

 private:
  [[noreturn]] void refuse(const PlannedTensor& planned) const;

  const FileType& type_;
  const ImportanceMatrix* matrix_;  // null: none
  std::string path_;
  std::set<std::string> used_;        // entries
  std::vector<std::string> missing_;  // matrices of layers
  size_t quantized_ = 0;              // matrices of layers
  size_t unreached_ = 0;              // experts that got no tokens
};

}  // namespace gabbro::llm
