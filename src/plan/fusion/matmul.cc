// matmul_fused: a product of plain matrices of one dtype with a bias, an activation or both behind it; also where it is
// written as `linear`, with an activation.
#include <algorithm>
#include <optional>

#include "src/plan/fusion/rules.h"

namespace gabbro {
namespace {

const Op kMatmulFused = {.name = "matmul_fused"};

class MatmulFuser {
 public:
  MatmulFuser(Program& program, const HasKernel& has_kernel)
      : program_(program), has_kernel_(has_kernel), flow_(program) {}

  void run() {
    for (int index = 0; index < static_cast<int>(program_.instructions.size()); ++index) {
      std::optional<Product> product = product_at(index);
      if (!product) continue;
      const Product plain = *product;
      const bool own = add_activation(*product);
      if ((own && fuse(*product)) || (!own && !product->worth)) continue;
      if (plain.worth) fuse(plain);
    }
  }

 private:
  // The instructions that become one, and what it reads.
  struct Product {
    std::vector<int> removed;
    std::vector<int> inputs;
    int output;
    bool transposed, bias;
    bool worth;  // even without an activation
    int64_t activation = 0;
  };

  const Instruction& at(int index) const { return program_.instructions[index]; }
  const TensorSpec& spec(int value) const { return program_.values[value]; }

  std::optional<Product> product_at(int index) const {
    const Instruction& instruction = at(index);
    const Op* const op = instruction.op;
    if (op != &kLinear && op != &kMatmul) return {};
    const TensorSpec &a = spec(instruction.inputs[0]), &b = spec(instruction.inputs[1]);
    if (a.dtype != b.dtype || a.packed || b.packed || is_quantized(b.dtype)) return {};
    if (a.shape.rank() < 2 || b.shape.rank() != 2 || a.shape.elements() == 0 || b.shape.elements() == 0) return {};
    Product product{.removed = {index},
                    .inputs = instruction.inputs,
                    .output = instruction.outputs[0],
                    .transposed = op == &kLinear,
                    .bias = instruction.inputs.size() == 3,
                    .worth = false};
    if (op == &kMatmul) add_bias(product);
    return product;
  }

  // A vector that is added to each row, with or without other leading axes.
  void add_bias(Product& product) const {
    int y = product.output;
    std::vector<int> removed = product.removed;
    if (const int reshape = flow_.only_user(y, kReshape); reshape != DataFlow::kNone) {
      removed.push_back(reshape);
      y = at(reshape).outputs[0];
    }
    const int add = flow_.only_user(y, kAdd);
    if (add == DataFlow::kNone || is_half(spec(y).dtype)) return;  // the product would not be rounded before
    const int other = at(add).inputs[0] == y ? at(add).inputs[1] : at(add).inputs[0];
    const int wide = flow_.producer(other);
    if (wide == DataFlow::kNone || at(wide).op != &kBroadcast) return;
    const int bias = at(wide).inputs[0];
    const int64_t columns = spec(product.inputs[1]).shape[1];
    const Shape& shape = spec(bias).shape;
    const bool vector = shape.rank() > 0 && shape[shape.rank() - 1] == columns && shape.elements() == columns;
    // It has to be there when the product runs.
    if (!vector || spec(bias).dtype != spec(y).dtype || flow_.producer(bias) >= product.removed[0]) return;
    const Shape& rows = spec(y).shape;
    if (rows.rank() == 0 || rows[rows.rank() - 1] != columns) return;
    removed.push_back(add);
    product.removed = std::move(removed);
    product.inputs.push_back(bias);
    product.output = at(add).outputs[0];
    product.bias = product.worth = true;
  }

  bool add_activation(Product& product) const {
    for (const auto& [op, number] : kActivations) {
      const int activation = flow_.only_user(product.output, *op);
      if (activation == DataFlow::kNone || !may_follow(*op, spec(product.output).dtype)) continue;
      product.removed.push_back(activation);
      product.output = at(activation).outputs[0];
      product.activation = number;
      return true;
    }
    return false;
  }

  bool fuse(const Product& product) {
    Instruction fused{.op = &kMatmulFused, .inputs = product.inputs, .outputs = {product.output}};
    fused.attributes = {{"transposed", int64_t{product.transposed}},
                        {"bias", int64_t{product.bias}},
                        {"activation", product.activation}};
    if (!has_kernel_(program_, fused)) return false;
    replace(program_, product.removed[0], product.removed, std::move(fused));
    return true;
  }

  Program& program_;
  const HasKernel& has_kernel_;
  DataFlow flow_;
};

}  // namespace

void fuse_matmuls(Program& program, const HasKernel& has_kernel) { MatmulFuser(program, has_kernel).run(); }

}  // namespace gabbro
