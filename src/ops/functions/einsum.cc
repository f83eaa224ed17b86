#include <algorithm>
#include <cctype>
#include <map>

#include "gabbro/ops/products.h"
#include "src/ops/ops.h"
#include "src/ops/rules.h"

namespace gabbro {
namespace {

// An axis's letter; axes of "..." have numbers above all letters, the last axis the lowest.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kEllipsis = 256;

bool has(const Labels& labels, Label label) { return std::ranges::find(labels, label) != labels.end(); }

// An operand with a label for each axis, all of them different.
struct Term {
  Tensor x;
  Labels labels;
};

class Einsum {
 public:
  Einsum(std::string_view equation, const std::vector<Tensor>& operands) : equation_(equation) {
    std::string text;
    for (const char c : equation) {
      if (c != ' ') text += c;
    }
    const size_t arrow = text.find("->");
    const std::vector<std::string> inputs = comma_separated(text.substr(0, arrow));
    if (inputs.size() != operands.size()) refuse("has {} terms for {} operands", inputs.size(), operands.size());
    for (size_t i = 0; i < operands.size(); ++i) terms_.push_back(read_term(inputs[i], operands[i]));
    for (Term& term : terms_) leave_out_ones(term);
    output_ = arrow == std::string::npos ? implicit_output() : explicit_output(text.substr(arrow + 2));
  }

  Tensor compute() {
    for (size_t i = 0; i < terms_.size(); ++i) terms_[i] = sum_out(terms_[i], i, i);
    while (terms_.size() > 1) {
      const auto [a, b] = cheapest_pair();
      Term product = multiply(terms_[a], terms_[b], kept_by_others(a, b));
      terms_.erase(terms_.begin() + static_cast<int64_t>(b));  // a < b
      terms_[a] = std::move(product);
    }
    return in_output_order(sum_out(terms_[0], 0, 0));
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(fmt::format_string<Parts...> format, Parts&&... parts) const {
    throw bad_input("[einsum] '{}' {}", equation_, fmt::format(format, std::forward<Parts>(parts)...));
  }

  static std::vector<std::string> comma_separated(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (c == ',') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
    return parts;
  }

  // Letters, with `dots` labels where "..." stands.
  Labels read_labels(const std::string& text, int dots) const {
    Labels labels;
    for (size_t i = 0; i < text.size(); ++i) {
      if (std::isalpha(static_cast<unsigned char>(text[i])) != 0) {
        labels.push_back(text[i]);
      } else if (text.compare(i, 3, "...") == 0 && text.find("...") == i) {
        for (int axis = dots; axis > 0; --axis) labels.push_back(kEllipsis + axis);
        i += 2;
      } else {
        refuse("has '{}', expected letters and '...'", text[i]);
      }
    }
    return labels;
  }

  Term read_term(const std::string& text, const Tensor& x) {
    require_plain("einsum", x);
    const int rank = x.shape().rank();
    const bool dotted = text.find("...") != std::string::npos;
    const int dots = dotted ? rank - static_cast<int>(text.size()) + 3 : 0;
    const Labels labels = read_labels(text, std::max(dots, 0));
    if (dots < 0 || std::ssize(labels) != rank)
      refuse("has {} letters for shape {}", text.size(), x.shape().to_string());
    dots_ = std::max(dots_, dots);
    Term term{x, labels};
    while (take_diagonal(term)) {
    }
    for (size_t i = 0; i < term.labels.size(); ++i) {
      const int64_t length = term.x.shape()[static_cast<int>(i)];
      int64_t& known = lengths_.try_emplace(term.labels[i], length).first->second;
      if (known != length && known != 1 && length != 1) {
        refuse("has axes of length {} and {} by one letter, the latter in shape {}", known, length,
               x.shape().to_string());
      }
      if (known == 1) known = length;
    }
    return term;
  }

  // A repeated label: both axes go to the end, and every n+1st of their n² elements stays.
  bool take_diagonal(Term& term) const {
    for (size_t j = 1; j < term.labels.size(); ++j) {
      const auto first = std::find(term.labels.begin(), term.labels.begin() + static_cast<int64_t>(j), term.labels[j]);
      if (first == term.labels.begin() + static_cast<int64_t>(j)) continue;
      const auto i = static_cast<int64_t>(first - term.labels.begin());
      const int64_t n = term.x.shape()[static_cast<int>(j)];
      if (term.x.shape()[static_cast<int>(i)] != n) refuse("has a diagonal of shape {}", term.x.shape().to_string());
      const Tensor moved = moveaxis(term.x, {i, static_cast<int64_t>(j)}, {-2, -1});
      term.x = slice(flatten(moved, -2, -1), -1, 0, n, n + 1);
      const Label label = term.labels[j];
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(j));
      term.labels.erase(term.labels.begin() + i);
      term.labels.push_back(label);
      return true;
    }
    return false;
  }

  // An axis of length 1 where the label is longer elsewhere: as if it were not there.
  void leave_out_ones(Term& term) const {
    for (size_t i = term.labels.size(); i-- > 0;) {
      if (term.x.shape()[static_cast<int>(i)] != 1 || lengths_.at(term.labels[i]) == 1) continue;
      term.x = squeeze(term.x, static_cast<int64_t>(i));
      term.labels.erase(term.labels.begin() + static_cast<int64_t>(i));
    }
  }

  Labels implicit_output() const {
    std::map<Label, int> counts;
    for (const std::string& text : comma_separated(std::string(equation_))) {
      for (const char c : text) {
        if (std::isalpha(static_cast<unsigned char>(c)) != 0) ++counts[c];
      }
    }
    Labels output = read_labels("...", dots_);
    for (const auto& [label, count] : counts) {
      if (count == 1) output.push_back(label);
    }
    return output;
  }

  Labels explicit_output(const std::string& text) const {
    const Labels output = read_labels(text, dots_);
    for (size_t i = 0; i < output.size(); ++i) {
      if (!lengths_.contains(output[i])) refuse("gives '{}', which no term has", static_cast<char>(output[i]));
      if (std::ranges::count(output, output[i]) > 1) refuse("gives '{}' twice", static_cast<char>(output[i]));
    }
    if (dots_ > 0 && !has(output, kEllipsis + 1)) refuse("does not give the axes of '...'");
    return output;
  }

  // The labels that the result or a term other than these two needs.
  Labels kept_by_others(size_t a, size_t b) const {
    Labels kept = output_;
    for (size_t i = 0; i < terms_.size(); ++i) {
      if (i != a && i != b) kept.insert(kept.end(), terms_[i].labels.begin(), terms_[i].labels.end());
    }
    return kept;
  }

  Term sum_out(const Term& term, size_t a, size_t b) const {
    const Labels kept = kept_by_others(a, b);
    std::vector<int64_t> axes;
    Labels left;
    for (size_t i = 0; i < term.labels.size(); ++i) {
      if (has(kept, term.labels[i])) {
        left.push_back(term.labels[i]);
      } else {
        axes.push_back(static_cast<int64_t>(i));
      }
    }
    return axes.empty() ? term : Term{cast(sum(term.x, Axes(axes)), term.x.dtype()), left};
  }

  double elements(const Labels& labels) const {
    double product = 1;
    for (const Label label : labels) product *= static_cast<double>(lengths_.at(label));
    return product;
  }

  std::pair<size_t, size_t> cheapest_pair() const {
    std::pair<size_t, size_t> best{0, 1};
    double least = INFINITY;
    for (size_t a = 0; a < terms_.size(); ++a) {
      for (size_t b = a + 1; b < terms_.size(); ++b) {
        Labels result;
        const Labels kept = kept_by_others(a, b);
        for (const Labels* labels : {&terms_[a].labels, &terms_[b].labels}) {
          for (const Label label : *labels) {
            if (has(kept, label) && !has(result, label)) result.push_back(label);
          }
        }
        const double growth = elements(result) - elements(terms_[a].labels) - elements(terms_[b].labels);
        if (growth < least) {
          least = growth;
          best = {a, b};
        }
      }
    }
    return best;
  }

  // x with its axes in this order, made [first, second, third].
  Tensor arranged(const Term& term, const Labels& first, const Labels& second, const Labels& third) const {
    std::vector<int> order;
    std::vector<int64_t> lengths;
    for (const Labels* group : {&first, &second, &third}) {
      int64_t product = 1;
      for (const Label label : *group) {
        order.push_back(static_cast<int>(std::ranges::find(term.labels, label) - term.labels.begin()));
        product *= lengths_.at(label);
      }
      lengths.push_back(product);
    }
    return reshape(permute(term.x, order), Shape(lengths));
  }

  Term multiply(const Term& a, const Term& b, const Labels& kept) const {
    Labels both, summed, only_a, only_b;
    for (const Label label : a.labels) {
      (!has(b.labels, label) ? only_a : has(kept, label) ? both : summed).push_back(label);
    }
    for (const Label label : b.labels) {
      if (!has(a.labels, label)) only_b.push_back(label);
    }
    const Tensor left = arranged(a, both, only_a, summed), right = arranged(b, both, summed, only_b);
    const Tensor product = summed.empty() ? left * right : matmul(left, right);  // [both, only_a, only_b]
    Labels labels = both;
    labels.insert(labels.end(), only_a.begin(), only_a.end());
    labels.insert(labels.end(), only_b.begin(), only_b.end());
    std::vector<int64_t> lengths;
    for (const Label label : labels) lengths.push_back(lengths_.at(label));
    return {reshape(product, Shape(lengths)), labels};
  }

  Tensor in_output_order(const Term& term) const {
    std::vector<int> order;
    for (const Label label : output_)
      order.push_back(static_cast<int>(std::ranges::find(term.labels, label) - term.labels.begin()));
    return std::ranges::is_sorted(order) ? term.x : permute(term.x, order);
  }

  std::string_view equation_;
  std::vector<Term> terms_;
  std::map<Label, int64_t> lengths_;
  Labels output_;
  int dots_ = 0;  // axes that "..." stands for, at most
};

}  // namespace

Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands) {
  return Einsum(equation, operands).compute();
}

}  // namespace gabbro
