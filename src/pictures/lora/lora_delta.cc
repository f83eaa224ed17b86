#include "src/pictures/lora/lora_delta.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/base/error.h"

namespace gabbro::pictures {
namespace {

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

int64_t product_of(const std::vector<int64_t>& lengths, size_t first) {
  int64_t count = 1;
  for (size_t axis = first; axis < lengths.size(); ++axis) count *= lengths[axis];
  return count;
}

// In f64, rounded once.
Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix c{.rows = a.rows, .columns = b.columns};
  std::vector<double> row(static_cast<size_t>(b.columns));
  for (int64_t i = 0; i < a.rows; ++i) {
    row.assign(row.size(), 0);
    for (int64_t k = 0; k < a.columns; ++k) {
      const double factor = a.values[static_cast<size_t>(i * a.columns + k)];
      const float* const from = &b.values[static_cast<size_t>(k * b.columns)];
      for (size_t j = 0; j < row.size(); ++j) row[j] += factor * from[j];
    }
    c.values.insert(c.values.end(), row.begin(), row.end());
  }
  return c;
}

Matrix transposed(const Matrix& m) {
  Matrix t{.rows = m.columns, .columns = m.rows};
  t.values.resize(m.values.size());
  for (int64_t i = 0; i < m.rows; ++i) {
    for (int64_t j = 0; j < m.columns; ++j)
      t.values[static_cast<size_t>(j * m.rows + i)] = m.values[static_cast<size_t>(i * m.columns + j)];
  }
  return t;
}

class DeltaMaker {
 public:
  DeltaMaker(const std::string& path, const LoraParts& parts, const LoraLayer& layer)
      : path_(path), parts_(parts), layer_(layer), rows_(layer.shape[0]), columns_(product_of(layer.shape, 1)) {}

  LoraDelta make() {
    LoraDelta delta;
    if (has("down") || has("up")) {
      make_low_rank(delta);
    } else if (has("hada_w1_a")) {
      delta.weight = make_loha();
    } else if (has("lokr_w1") || has("lokr_w1_a")) {
      delta.weight = make_lokr();
    }
    for (const char* const name : {"diff", "w_norm", "set_weight"}) {
      if (has(name)) add_whole(name, layer_.weight, static_cast<size_t>(rows_ * columns_), delta.weight);
    }
    for (const char* const name : {"diff_b", "b_norm"}) {
      if (!has(name)) continue;
      if (!layer_.has_bias) throw fault(parts_.at(name), "the layer has no bias");
      add_whole(name, layer_.bias, static_cast<size_t>(rows_), delta.bias);
    }
    if (has("dora_scale")) decompose(delta);
    for (const auto& [name, tensor] : parts_) {
      if (!used_.contains(name)) throw fault(tensor, "has no place among the layer's tensors");
    }
    for (const std::vector<float>* const values : {&delta.down, &delta.up, &delta.weight, &delta.bias}) {
      if (!std::ranges::all_of(*values, [](float value) { return std::isfinite(value); }))
        throw fault(parts_.begin()->second, "the layer's difference has values that are not numbers");
    }
    return delta;
  }

 private:
  bool has(const char* name) const { return parts_.contains(name); }

  const LoraTensor& take(const char* name) {
    const auto found = parts_.find(name);
    if (found == parts_.end())
      throw bad_input("{}: {}: the layer has no tensor '{}'", path_, parts_.begin()->second.key, name);
    used_.insert(name);
    return found->second;
  }

  Error fault(const LoraTensor& tensor, const std::string& what) const {
    return bad_input("{}: {}: {}", path_, tensor.key, what);
  }

  void require(bool fits, const LoraTensor& tensor) const {
    if (fits) return;
    std::string shape, wanted;
    for (const int64_t length : tensor.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(length);
    for (const int64_t length : layer_.shape) wanted += (wanted.empty() ? "" : ", ") + std::to_string(length);
    throw fault(tensor, fmt::format("its shape [{}] does not fit the model's weight [{}]", shape, wanted));
  }

  Matrix matrix(const char* name) {
    const LoraTensor& tensor = take(name);
    require(tensor.shape.size() >= 2, tensor);
    return {.rows = tensor.shape[0], .columns = tensor.columns(), .values = tensor.values};
  }

  // alpha / rank; 1 without alpha.
  double factor(int64_t rank) {
    if (!has("alpha")) return 1;
    const LoraTensor& alpha = take("alpha");
    if (alpha.values.size() != 1) throw fault(alpha, "is not one number");
    return static_cast<double>(alpha.values[0]) / static_cast<double>(rank);
  }

  // Σ outer[o, p] · middle[p, q, ...] · inner[q, i]: [O, I, ...].
  std::vector<float> tucker(const Matrix& outer, const LoraTensor& middle, const Matrix& inner) const {
    require(middle.shape.size() >= 2 && middle.shape[0] == outer.columns && middle.shape[1] == inner.rows, middle);
    const int64_t places = product_of(middle.shape, 2);
    std::vector<float> all(static_cast<size_t>(outer.rows * inner.columns * places));
    for (int64_t at = 0; at < places; ++at) {
      Matrix core{.rows = middle.shape[0], .columns = middle.shape[1]};
      for (size_t i = 0; i < static_cast<size_t>(core.rows * core.columns); ++i)
        core.values.push_back(middle.values[i * static_cast<size_t>(places) + static_cast<size_t>(at)]);
      const Matrix whole = multiply(multiply(outer, core), inner);
      for (size_t i = 0; i < whole.values.size(); ++i)
        all[i * static_cast<size_t>(places) + static_cast<size_t>(at)] = whole.values[i];
    }
    return all;
  }

  void require_size(const std::vector<float>& values, const char* name) const {
    require(std::ssize(values) == rows_ * columns_, parts_.at(name));
  }
  // A product of this size is part of the weight: hostile files name larger ones.
  void require_elements(int64_t rows, int64_t columns, const LoraTensor& tensor) const {
    require(rows <= rows_ * columns_ / columns, tensor);
  }
  static void scale(std::vector<float>& values, double by) {
    for (float& value : values) value = static_cast<float>(value * by);
  }

  void make_low_rank(LoraDelta& delta) {
    const Matrix down = matrix("down");
    Matrix up = matrix("up");
    require(up.rows == rows_, parts_.at("up"));
    const double by = factor(down.rows);
    if (has("mid")) {
      require_elements(up.rows, down.columns, parts_.at("down"));
      delta.weight = tucker(up, take("mid"), down);
      require_size(delta.weight, "down");
      return scale(delta.weight, by);
    }
    require(down.columns == columns_, parts_.at("down"));
    require(up.columns == down.rows, parts_.at("up"));
    scale(up.values, by);
    delta.rank = down.rows;
    delta.down = down.values;
    delta.up = std::move(up.values);
  }

  std::vector<float> make_loha() {
    std::vector<float> factors[2];
    int64_t rank = 0;
    for (int i = 0; i < 2; ++i) {
      const Matrix a = matrix(i == 0 ? "hada_w1_a" : "hada_w2_a"), b = matrix(i == 0 ? "hada_w1_b" : "hada_w2_b");
      const char* const middle = i == 0 ? "hada_t1" : "hada_t2";
      if (i == 0) rank = b.rows;
      const LoraTensor& right = parts_.at(i == 0 ? "hada_w1_b" : "hada_w2_b");
      if (!has(middle)) require(a.columns == b.rows, right);
      require_elements(has(middle) ? a.columns : a.rows, b.columns, right);
      factors[i] = has(middle) ? tucker(transposed(a), take(middle), b) : multiply(a, b).values;
      require_size(factors[i], i == 0 ? "hada_w1_a" : "hada_w2_a");
    }
    const double by = factor(rank);
    for (size_t i = 0; i < factors[0].size(); ++i)
      factors[0][i] = static_cast<float>(static_cast<double>(factors[0][i]) * factors[1][i] * by);
    return factors[0];
  }

  // w1 ⊗ w2; each whole or a product. Only a product has a rank, by which alpha is divided.
  std::vector<float> make_lokr() {
    int64_t rank = 0;
    const auto product = [&](const char* a, const char* b) {
      const Matrix left = matrix(a), right = matrix(b);
      require(left.columns == right.rows, parts_.at(b));
      require_elements(left.rows, right.columns, parts_.at(b));
      rank = right.rows;
      return multiply(left, right);
    };
    const Matrix w1 = has("lokr_w1") ? matrix("lokr_w1") : product("lokr_w1_a", "lokr_w1_b");
    Matrix w2;
    int64_t places = layer_.shape.size() > 2 ? product_of(layer_.shape, 2) : 1;
    if (has("lokr_w2")) {
      w2 = matrix("lokr_w2");
    } else if (has("lokr_t2")) {
      const Matrix a = matrix("lokr_w2_a"), b = matrix("lokr_w2_b");
      rank = b.rows;
      require_elements(a.columns, b.columns, parts_.at("lokr_w2_b"));
      w2 = {.rows = a.columns, .values = tucker(transposed(a), take("lokr_t2"), b)};
      w2.columns = std::ssize(w2.values) / w2.rows;
    } else {
      w2 = product("lokr_w2_a", "lokr_w2_b");
    }
    const LoraTensor& named = parts_.at(has("lokr_w1") ? "lokr_w1" : "lokr_w1_a");
    require(w1.rows <= rows_ && w2.rows <= rows_ && w1.columns <= columns_ && w2.columns <= columns_, named);
    require(w2.columns % places == 0 && w1.rows * w2.rows == rows_ && w1.columns * w2.columns == columns_, named);
    const double by = rank > 0 ? factor(rank) : 1;
    used_.insert("alpha");  // whole factors have none to divide
    const int64_t inner = w2.columns / places;
    std::vector<float> all;
    all.reserve(static_cast<size_t>(rows_ * columns_));
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t column = 0; column < columns_; ++column) {
        const int64_t channel = column / places, at = column % places;
        const double left = w1.values[static_cast<size_t>(row / w2.rows * w1.columns + channel / inner)];
        const double right = w2.values[static_cast<size_t>(row % w2.rows * w2.columns + channel % inner * places + at)];
        all.push_back(static_cast<float>(left * right * by));
      }
    }
    return all;
  }

  void add_whole(const char* name, const std::function<std::vector<float>()>& base, size_t size,
                 std::vector<float>& to) {
    const LoraTensor& tensor = take(name);
    require(tensor.values.size() == size, tensor);
    to.resize(size);
    for (size_t i = 0; i < size; ++i) to[i] += tensor.values[i];
    if (std::string_view(name) != "set_weight") return;
    const std::vector<float> before = base();
    for (size_t i = 0; i < size; ++i) to[i] -= before[i];
  }

  // Magnitudes of rows [N, 1 ...] or [N], or of input channels [1, C ...].
  void decompose(LoraDelta& delta) {
    const LoraTensor& magnitude = take("dora_scale");
    if (delta.rank > 0) {
      delta.weight =
          multiply({rows_, delta.rank, std::move(delta.up)}, {delta.rank, columns_, std::move(delta.down)}).values;
      delta.up.clear();
      delta.down.clear();
      delta.rank = 0;
    }
    if (delta.weight.empty()) throw fault(magnitude, "the layer has no other difference");
    const int64_t channels = layer_.shape.size() > 1 ? layer_.shape[1] : 1, places = columns_ / channels;
    const bool of_rows = magnitude.length(0) == rows_ && std::ssize(magnitude.values) == rows_;
    require(of_rows || (magnitude.length(0) == 1 && std::ssize(magnitude.values) == channels), magnitude);
    const std::vector<float> before = layer_.weight();
    const auto group = [&](size_t i) {
      const auto at = static_cast<int64_t>(i);
      return static_cast<size_t>(of_rows ? at / columns_ : at % columns_ / places);
    };
    std::vector<double> squares(magnitude.values.size());
    for (size_t i = 0; i < before.size(); ++i)
      squares[group(i)] += std::pow(static_cast<double>(before[i]) + delta.weight[i], 2);
    for (size_t i = 0; i < before.size(); ++i) {
      const double length = std::sqrt(squares[group(i)]);
      const double moved = static_cast<double>(before[i]) + delta.weight[i];
      const double scaled = length > 0 ? moved * magnitude.values[group(i)] / length : moved;
      delta.weight[i] = static_cast<float>(scaled - before[i]);
    }
  }

  const std::string& path_;
  const LoraParts& parts_;
  const LoraLayer& layer_;
  int64_t rows_, columns_;
  std::set<std::string> used_;
};

}  // namespace

LoraDelta make_delta(const std::string& path, const LoraParts& parts, const LoraLayer& layer) {
  return DeltaMaker(path, parts, layer).make();
}

}  // namespace gabbro::pictures
