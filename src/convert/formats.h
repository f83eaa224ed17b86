// Tensors of a conversion that keep another format than its type asks for. Private to convert.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "src/convert/target.h"

namespace gabbro::llm {

class OtherFormats {
 public:
  // A matrix whose rows are not whole blocks of the requested format.
  void add(const PlannedTensor& planned);
  // A matrix that the model does not use, and that is copied.
  void add_copied(DType format);

  // One line with their number and the reasons; empty: there is none.
  std::string line(const std::string& path, const FileType& type, size_t tensors) const;

 private:
  struct ShortRows {
    size_t count = 0;
    int64_t block = INT64_MAX;  // the smallest of those that are asked for
  };
  std::map<std::pair<std::string, int64_t>, ShortRows> short_rows_;  // by format and columns
  std::map<std::string, size_t> copied_;
};

}  // namespace gabbro::llm
