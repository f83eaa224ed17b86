// UniPC (Zhao et al. 2023) of the data prediction: a multistep predictor, and a corrector that uses the model's next
// output without calling it again.
#include <algorithm>
#include <array>

#include "src/pictures/samplers/weighted_sum.h"

namespace gabbro::pictures {
namespace {

constexpr size_t kMostOrder = 3;
using Row = std::array<double, kMostOrder>;

// Gaussian elimination of `size` equations; the matrices are Vandermonde's of different numbers.
Row solve_equations(std::array<Row, kMostOrder> a, Row b, size_t size) {
  for (size_t column = 0; column < size; ++column) {
    size_t pivot = column;
    for (size_t row = column; row < size; ++row) {
      if (std::fabs(a[row][column]) > std::fabs(a[pivot][column])) pivot = row;
    }
    std::swap(a[column], a[pivot]);
    std::swap(b[column], b[pivot]);
    for (size_t row = column + 1; row < size; ++row) {
      const double factor = a[row][column] / a[column][column];
      for (size_t k = column; k < size; ++k) a[row][k] -= factor * a[column][k];
      b[row] -= factor * b[column];
    }
  }
  Row x{};
  for (size_t i = size; i > 0; --i) {
    double sum = b[i - 1];
    for (size_t k = i; k < size; ++k) sum -= a[i - 1][k] * x[k];
    x[i - 1] = sum / a[i - 1][i - 1];
  }
  return x;
}

struct Point {
  Latent picture;
  double lambda = 0;  // -ln ratio
};

double lambda_of(double ratio) { return -std::log(ratio); }

// x at `to`, from x at the last point of `past`, whose pictures up to `order` count; with the picture at `to` itself,
// if there is one, as the corrector has it.
Latent unipc_step(const Latent& x, std::span<const Point> past, double to, const Point* now, size_t order,
                  const SamplerOptions& options) {
  const Point& from = past.back();
  const double h = lambda_of(to) - from.lambda;  // infinite in the last step, which is of first order
  const double e = std::expm1(-h);
  const double b_h = options.bh1 ? -h : e;
  std::vector<const Point*> others;  // whose differences from `from` count
  Row ratios{};
  for (size_t i = 1; i < order; ++i) {
    others.push_back(&past[past.size() - 1 - i]);
    ratios[i - 1] = (others.back()->lambda - from.lambda) / h;
  }
  ratios[order - 1] = 1;
  if (now != nullptr) others.push_back(now);
  Row weights{};
  if (others.size() == 1) {
    weights[0] = 0.5;
  } else if (!others.empty()) {
    std::array<Row, kMostOrder> powers{};
    Row right{};
    double phi = e / -h - 1, factorial = 1;
    for (size_t i = 0; i < others.size(); ++i) {
      for (size_t k = 0; k < others.size(); ++k) powers[i][k] = std::pow(ratios[k], static_cast<double>(i));
      right[i] = phi * factorial / b_h;
      factorial *= static_cast<double>(i + 2);
      phi = phi / -h - 1 / factorial;
    }
    weights = solve_equations(powers, right, others.size());
  }
  double of_from = -e;
  Latent sum = weighted_sum({{std::exp(-h), x}});
  for (size_t i = 0; i < others.size(); ++i) {
    const double weight = -b_h * weights[i] / (others[i] == now ? 1 : ratios[i]);
    of_from -= weight;
    sum = weighted_sum({{1, sum}, {weight, others[i]->picture}});
  }
  return weighted_sum({{1, sum}, {of_from, from.picture}});
}

}  // namespace

Latent sample_unipc(Latent x, const SamplerRun& run) {
  const Schedule& s = run.schedule;
  const SamplerOptions& o = run.options;
  x = to_ratio_form(x, s.levels.front());
  std::vector<Point> past;
  Latent last;  // x before the predictor's step
  size_t order = 1;
  for (size_t i = 0; i < s.steps(); ++i) {
    const double here = s.levels[i].ratio;
    Point now{.picture = picture_in(x, s.levels[i], run.model), .lambda = lambda_of(here)};
    const bool corrects =
        std::ranges::find(o.disable_corrector, static_cast<int64_t>(i) - 1) == o.disable_corrector.end();
    if (i > 0 && corrects) x = unipc_step(last, past, here, &now, order, o);
    past.push_back(std::move(now));
    if (past.size() > kMostOrder) past.erase(past.begin());
    const size_t most = std::min<size_t>(static_cast<size_t>(o.order), kMostOrder);
    order = std::min(o.lower_order_final ? std::min(most, s.steps() - i) : most, i + 1);
    last = x;
    x = s.targets[i].ratio == 0 ? past.back().picture : unipc_step(x, past, s.targets[i].ratio, nullptr, order, o);
    finish_step(x, i, run, StateForm::kRatio);
  }
  return from_ratio_form(x, s.targets.back());
}

}  // namespace gabbro::pictures
