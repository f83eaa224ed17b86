// Sums of the squares of what each weight matrix is multiplied with: an importance matrix, computed while a model runs.
#pragma once

#include <string>
#include <vector>

#include "src/formats/importance_matrix.h"
#include "src/ops/ops.h"

namespace gabbro::llm {

class InputSquares {
 public:
  // Takes in the inputs x [..., K] of the matrix `name` of GGUF, which the next evaluation adds up.
  void add(const std::string& name, const Tensor& x);
  // For E experts. x is [T, K] where all experts of a token have the same input, or [T, U, K]; ids [T, U] are
  // the experts of each token.
  void add_experts(const std::string& name, const Tensor& x, const Tensor& ids, int64_t experts);

  // Tensors to evaluate together with the model's results; accumulate() takes their values over.
  std::vector<Tensor> pending() const;
  void accumulate();
  void drop() { pending_.clear(); }  // after a step that failed

  // Over all that was accumulated.
  ImportanceMatrix result() const;

 private:
  struct Pending {
    std::string name;
    Tensor sums;    // [E, K]
    Tensor counts;  // [E]; undefined: `tokens`
    int64_t tokens = 0;
  };
  struct Sums {
    std::vector<double> sums;    // [E, K]
    std::vector<double> counts;  // [E]
  };

  std::vector<Pending> pending_;
  std::map<std::string, Sums> sums_;
};

}  // namespace gabbro::llm
