#include "apps/cli/serve_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

namespace gabbro::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWidth = 460, kHeight = 250, kLeft = 56, kRight = 12, kTop = 12, kBottom = 40;
constexpr int kMostPoints = 200;  // of a curve
constexpr int kColors = 6;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #fbfaf7; --card: #fff; --ink: #1f2321; --soft: #5d625d; --line: #dedad0;
  --c0: #1d6b56; --c1: #b26a1d; --c2: #2f6fd0; --c3: #94286b; --c4: #6b6f1d; --c5: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #141716; --card: #1d2120; --ink: #e6e9e5; --soft: #a0a8a3; --line: #2e3432;
  --c0: #7fd1b3; --c1: #e6b673; --c2: #82b8ee; --c3: #e79ac6; --c4: #cfd37a; --c5: #ff8a80; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 28px 16px 48px; }
h1 { font-size: 24px; margin: 0 0 12px; } h2 { font-size: 16px; margin: 0 0 8px; }
dl { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 0 0 20px; } dt { color: var(--soft); font-size: 12px; } dd { margin: 0; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); gap: 16px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 16px; margin: 0 0 16px; }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: right; padding: 5px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; } th { color: var(--soft); font-weight: 600; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
.grid { stroke: var(--line); } .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.key { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12px; color: var(--soft); padding-top: 6px; }
.key i { display: inline-block; width: 14px; height: 3px; border-radius: 2px; vertical-align: middle; margin-right: 5px; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

// 1, 2 or 5 times a power of ten, so that an axis up to `most` has about five marks.
double step_of(double most) {
  const double rough = most / 5, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

std::string label(double value) { return fmt::format("{:.6g}", value); }

std::string plot(const std::string& title, const std::string& x_name, const std::string& y_name,
                 const std::vector<Curve>& curves) {
  double most_x = 0, most_y = 0;
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      most_x = std::max(most_x, x);
      most_y = std::max(most_y, y);
    }
  }
  if (most_x <= 0) most_x = 1;
  if (most_y <= 0) most_y = 1;
  const double step_x = step_of(most_x), step_y = step_of(most_y);
  most_y = std::ceil(most_y / step_y - 1e-9) * step_y;
  const auto at_x = [&](double x) { return kLeft + x / most_x * (kWidth - kLeft - kRight); };
  const auto at_y = [&](double y) { return kHeight - kBottom - y / most_y * (kHeight - kTop - kBottom); };
  std::string svg =
      fmt::format(R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}">)", kWidth, kHeight, escaped(title));
  for (double y = 0; y <= most_y * 1.001; y += step_y) {
    svg += fmt::format(
        R"(<path class="grid" d="M{0} {1:.1f}H{2}"/><text x="{3}" y="{4:.1f}" text-anchor="end">{5}</text>)", kLeft,
        at_y(y), kWidth - kRight, kLeft - 6, at_y(y) + 4, label(y));
  }
  for (double x = 0; x <= most_x * 1.001; x += step_x)
    svg += fmt::format(R"(<text x="{:.1f}" y="{}" text-anchor="middle">{}</text>)", at_x(x), kHeight - kBottom + 16,
                       label(x));
  svg +=
      fmt::format(R"(<text x="{}" y="{}" text-anchor="end">{}</text>)", kWidth - kRight, kHeight - 6, escaped(x_name));
  std::string key;
  for (size_t i = 0; i < curves.size(); ++i) {
    const int color = static_cast<int>(i) % kColors;
    std::string path;
    for (const auto& [x, y] : curves[i].points)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', at_x(x), at_y(y));
    svg += fmt::format(R"x(<path class="curve" stroke="var(--c{})" d="{}"/>)x", color, path);
    if (curves[i].points.size() <= 16) {
      for (const auto& [x, y] : curves[i].points)
        svg += fmt::format(R"x(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="var(--c{})"/>)x", at_x(x), at_y(y), color);
    }
    key += fmt::format(R"x(<span><i style="background:var(--c{})"></i>{}</span>)x", color, escaped(curves[i].name));
  }
  return fmt::format("<section class=\"card\"><h2>{}, {}</h2>{}</svg><div class=\"key\">{}</div></section>\n",
                     escaped(title), escaped(y_name), svg, key);
}

std::string point_name(const LoopPoint& point) {
  return point.streams > 0 ? fmt::format("{} streams", point.streams) : fmt::format("{:.4g} requests/s", point.rate);
}

// Share of values that are at most x, in percent; the slowest percent is left out of the picture.
Curve distribution(const Measured& measured, const std::vector<double>& sorted) {
  Curve curve{.name = point_name(measured.point), .points = {}};
  if (sorted.empty()) return curve;
  for (int i = 0; i <= kMostPoints; ++i) {
    const double percent = 99.0 * i / kMostPoints;
    curve.points.emplace_back(percentile(sorted, percent), percent);
  }
  return curve;
}

std::string plots(const Json& document, const std::vector<Measured>& measured) {
  const Json& points = document["points"];
  std::string out;
  for (const char* const loop : {"closed", "open"}) {
    Curve rate{"output tokens", {}};
    std::vector<Curve> first = {{"p50", {}}, {"p95", {}}, {"p99", {}}};
    for (const Json& point : points) {
      if (point["loop"] != loop) continue;
      const double x = point.contains("streams") ? point["streams"].get<double>() : point["rate"].get<double>();
      rate.points.emplace_back(x, point["output_tokens_per_second"].get<double>());
      for (Curve& curve : first) curve.points.emplace_back(x, point["ttft_ms"][curve.name].get<double>());
    }
    if (rate.points.size() < 2) continue;
    const char* const x_name = loop == std::string_view("closed") ? "streams" : "requests per second";
    out += plot("Throughput", x_name, "tokens/s", {rate}) + plot("First token by load", x_name, "ms", first);
  }
  std::vector<Curve> over_time, first, gaps;
  constexpr int kParts = 30;
  for (const Measured& one : measured) {
    Curve curve{point_name(one.point), {}};
    const std::vector<double> rates = tokens_over_time(one, kParts);
    for (int i = 0; i < kParts; ++i)
      curve.points.emplace_back((i + 0.5) * one.seconds / kParts, rates[static_cast<size_t>(i)]);
    over_time.push_back(std::move(curve));
    first.push_back(distribution(one, first_token_times(one)));
    gaps.push_back(distribution(one, piece_gaps(one)));
  }
  return out + plot("Time to the first token", "ms", "% of requests", first) +
         plot("Time between pieces", "ms", "% of gaps", gaps) + plot("Output", "seconds", "tokens/s", over_time);
}

std::string number(const Json& value) { return value.is_number() ? fmt::format("{:.4g}", value.get<double>()) : "–"; }

std::string table(const Json& points) {
  std::string rows;
  for (const Json& point : points) {
    const auto time = [&](const char* name, const char* which) {
      return number(point[name].is_object() ? point[name][which] : Json());
    };
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", point.contains("streams")
                                                             ? fmt::format("{} streams", point["streams"].get<int>())
                                                             : number(point["rate"]) + " requests/s");
    for (const std::string& cell :
         {std::to_string(point["answered"].get<int64_t>()),
          std::to_string(point["requests"].get<int64_t>() - point["answered"].get<int64_t>()),
          number(point["output_tokens_per_second"]), number(point["requests_per_second"]), number(point["goodput"]),
          time("ttft_ms", "p50"), time("ttft_ms", "p95"), time("ttft_ms", "p99"), time("itl_ms", "p50"),
          time("itl_ms", "p95"), time("tpot_ms", "p50"), time("tpot_ms", "p95"), number(point["client_cpu"])})
      rows += "<td>" + cell + "</td>";
    rows += "</tr>\n";
  }
  return R"(<section class="card table" tabindex="0" role="group" aria-label="Figures"><table><thead><tr><th scope="col">load</th><th scope="col">answered</th>)"
         R"(<th scope="col">errors</th><th scope="col">tokens/s</th><th scope="col">requests/s</th><th scope="col">goodput</th><th scope="col">TTFT p50</th>)"
         R"(<th scope="col">p95</th><th scope="col">p99</th><th scope="col">ITL p50</th><th scope="col">p95</th><th scope="col">TPOT p50</th><th scope="col">p95</th>)"
         R"(<th scope="col">client CPU</th></tr></thead><tbody>)" +
         rows + "</tbody></table></section>\n";
}

}  // namespace

std::string serve_report(const Json& document, const std::vector<Measured>& measured) {
  const Json& load = document["load"];
  const Json& goals = document["goals"];
  const std::string url = document["url"].get<std::string>();
  std::string facts;
  for (const auto& [name, text] : std::initializer_list<std::pair<const char*, std::string>>{
           {"server", url},
           {"load", fmt::format("{}: {} words in, {} tokens out", load["name"].get<std::string>(),
                                number(load["prompt_words"]), number(load["answer_tokens"]))},
           {"time of each load", fmt::format("{} s", number(document["seconds"]))},
           {"goals", fmt::format("TTFT {} ms, TPOT {} ms", number(goals["ttft_ms"]), number(goals["tpot_ms"]))},
           {"seed", document["seed"].dump()},
           {"measured", document["time"].get<std::string>()}})
    facts += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, escaped(text));
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>Serving {}</title>\n<style>{}</style></head>\n"
      "<body><main>\n<h1>Serving {}</h1>\n<dl>{}</dl>\n{}<div class=\"plots\">{}</div>\n</main></body>\n</html>\n",
      escaped(document["model"].get<std::string>()), kStyle, escaped(document["model"].get<std::string>()), facts,
      table(document["points"]), plots(document, measured));
}

}  // namespace gabbro::cli
