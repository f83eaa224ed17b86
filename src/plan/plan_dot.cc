// A plan as a picture, in Graphviz' language.
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "src/plan/plan.h"

namespace gabbro {
namespace {

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string spec_text(const TensorSpec& spec) {
  return fmt::format("{} {}", dtype_name(spec.dtype), spec.shape.to_string());
}

}  // namespace

std::string Plan::to_dot() const {
  // Writers by memory, which a view shares with its base: the node that wrote there last.
  std::map<std::tuple<Buffer::Kind, int, size_t>, std::string> writers;
  const auto writer = [&](int value) -> std::string& {
    const Buffer& buffer = buffers_[value];
    return writers[{buffer.kind, buffer.index, buffer.offset}];
  };
  for (size_t i = 0; i < program_.parameters.size(); ++i) writer(program_.parameters[i]) = fmt::format("in{}", i);
  std::string text =
      "digraph plan {\n"
      "  node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef3fb\", fontname=\"sans-serif\", fontsize=11];\n"
      "  edge [fontname=\"sans-serif\", fontsize=9];\n";
  std::map<std::string, std::string> used;  // of the parameters those that something reads, with their labels
  std::string edges;
  const auto edge = [&](int value, const std::string& to) {
    const std::string from = writer(value);
    if (from.empty()) return;  // empty tensors come from nowhere
    edges += fmt::format("  {} -> {} [label=\"{}\"];\n", from, to, spec_text(program_.values[value]));
    if (from.starts_with("in")) used[from] = "input " + from.substr(2);
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PlanStep& step = steps_[i];
    text += fmt::format("  s{} [label=\"{}\\n{}\\n{:.3g} KiB, {:.3g} flops\"];\n", i, escaped(step.op->name),
                        escaped(step.kernel->bound.implementation), step.kernel->bound.bytes / 1024,
                        step.kernel->bound.flops);
    for (const int input : step.inputs) edge(input, fmt::format("s{}", i));
    for (const int output : step.outputs) writer(output) = fmt::format("s{}", i);
  }
  for (size_t i = 0; i < program_.results.size(); ++i) {
    text += fmt::format("  out{0} [label=\"result {0}\", shape=ellipse, fillcolor=\"#e7f6ea\"];\n", i);
    edge(program_.results[i], fmt::format("out{}", i));
  }
  for (const auto& [name, label] : used)
    text += fmt::format("  {} [label=\"{}\", shape=ellipse, fillcolor=\"#fdf3e1\"];\n", name, label);
  return text + edges +
         fmt::format("  label=\"{} launches, arena {:.1f} KiB\";\n  fontname=\"sans-serif\";\n  fontsize=11;\n}}\n",
                     steps_.size(), static_cast<double>(arena_bytes_) / 1024);
}

}  // namespace gabbro
