// Finds tensors whose bytes are all zero: what a download that reserved the space of its file, and did not go on,
// leaves.
#pragma once

#include <string>
#include <vector>

#include "src/formats/checkpoint.h"

namespace gabbro {

// Vectors of zeros, such as biases, are usual, and a matrix of them between others that hold values may be meant so. A
// hole takes several matrices, or begins or ends inside of a tensor.
class ZeroTensors {
 public:
  // To be called once for each tensor, while its data can be read.
  void add(const CheckpointTensor& tensor);

  struct Found {
    std::vector<std::string> holes;   // tensors in holes, in the order of the files
    std::vector<std::string> single;  // matrices of zeros apart from holes
  };
  Found find() const;

 private:
  struct Entry {
    std::string name;
    const MappedFile* file;
    uint64_t offset;
    bool matrix, zeros, begins_with_zeros, ends_with_zeros;
  };
  std::vector<Entry> entries_;
};

}  // namespace gabbro
