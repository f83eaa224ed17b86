// Importance matrices: for each weight matrix the mean square of each of its inputs over a text, by which quantizers
// weight errors. The files come from llama.cpp's llama-imatrix: GGUF, and the older .dat form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gabbro {

// Sums for one matrix [N, K], or for the E experts of a layer, each [N, K].
struct Importance {
  int64_t columns = 0;        // K
  std::vector<float> sums;    // [E, K]: of the squares of the inputs
  std::vector<float> counts;  // [E]: tokens that were added up

  int64_t experts() const { return static_cast<int64_t>(counts.size()); }
};

class ImportanceMatrix {
 public:
  std::map<std::string, Importance> entries;  // by names of tensors in GGUF: "blk.0.attn_q.weight"
  std::vector<std::string> datasets;          // names of the texts
  uint32_t chunks = 0;                        // of the texts that were used
  uint32_t chunk_tokens = 0;                  // 0: not known (.dat)

  // Reads either form. Throws bad_input that names the file and the entry: cut off, sums without counts, sizes that do
  // not belong together, values that are below 0 or not numbers.
  static ImportanceMatrix read(const std::string& path);

  // The GGUF form; write(): the whole file or none. Throws failed() that begins with `path` and names an entry with
  // values that read() refuses.
  std::vector<std::byte> bytes(const std::string& path) const;
  void write(const std::string& path) const;

  // Weights [E, K] of the squared errors of a matrix: the mean squares, and 1 for an expert without tokens. Empty where
  // there is no entry. Throws bad_input that names `path` where the entry has other sizes.
  std::vector<float> weights(const std::string& tensor, int64_t experts, int64_t columns,
                             const std::string& path) const;

  size_t digest() const;  // of names and values
};

}  // namespace gabbro
