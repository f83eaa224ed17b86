// The unit to which tools/build_time compares: it uses only the standard library, and stays unchanged.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

template <int N>
struct Step {
  static double run(const std::vector<double>& x, std::map<int, std::string>& names) {
    std::vector<double> y(x.size());
    std::transform(x.begin(), x.end(), y.begin(), [](double v) { return v * N + 1.0 / (N + 1); });
    std::sort(y.begin(), y.end(), [](double a, double b) { return a * N < b * N; });
    names[N] = std::to_string(std::accumulate(y.begin(), y.end(), 0.0));
    const std::function<double(double)> next = [&](double v) { return v + Step<N - 1>::run(y, names); };
    return next(y.empty() ? 0.0 : y.front());
  }
};
template <>
struct Step<0> {
  static double run(const std::vector<double>& x, std::map<int, std::string>&) { return static_cast<double>(x.size()); }
};

std::unordered_map<std::string, double> reference(const std::string& text) {
  std::unordered_map<std::string, double> sums;
  std::map<int, std::string> names;
  const std::regex word("([a-z]+)=([0-9.]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at) {
    std::istringstream number((*at)[2].str());
    double value = 0;
    number >> value;
    sums[(*at)[1].str()] += Step<12>::run({value, value + 1, value + 2}, names);
  }
  return sums;
}
