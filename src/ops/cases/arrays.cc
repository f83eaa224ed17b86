// Views, shapes, elements by index and new arrays.
#include "src/ops/cases/attributes.h"
#include "src/ops/cases/cases.h"
#include "src/ops/op_table.h"
#include "src/ops/ops.h"

namespace gabbro::cases {
namespace {

using nlohmann::json;

std::optional<int64_t> bound(const json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<int64_t>());
}

std::vector<Index> indices_of(const Inputs& inputs, const json& a) {
  std::vector<Index> indices;
  for (const json& item : a.at("indices")) {
    if (item.is_number()) {
      indices.emplace_back(item.get<int64_t>());
    } else if (item.is_array()) {
      indices.emplace_back(Slice{.start = bound(item[0]), .stop = bound(item[1]), .step = item[2]});
    } else if (item.is_object()) {
      indices.emplace_back(inputs.at(item.at("input").get<size_t>()));
    } else if (item == "new") {
      indices.emplace_back(NewAxis{});
    } else {
      indices.emplace_back(Ellipsis{});
    }
  }
  return indices;
}

Tensor padded(const Inputs& x, const json& a) {
  const std::string mode = a.at("mode");
  return pad(x[0], a.at("widths").get<std::vector<std::pair<int64_t, int64_t>>>(),
             mode == "constant" ? PadMode::kConstant
             : mode == "edge"   ? PadMode::kEdge
                                : PadMode::kReflect,
             number(a.value("value", json(0))));
}

Tensor part_of(const Unique& unique, const std::string& part) {
  return part == "values"    ? unique.values
         : part == "indices" ? unique.indices
         : part == "inverse" ? unique.inverse
                             : unique.counts;
}

size_t result_index(const json& a) { return a.at("result"); }

std::vector<GradientCase> broadcasts() {
  std::vector<GradientCase> cases;
  for (const auto& [from, to] : {std::pair(Shape{3, 1}, Shape{2, 3, 5}),
                                 std::pair(Shape{1, 3, 1, 2}, Shape{2, 3, 4, 2}), std::pair(Shape{1}, Shape{1, 4})}) {
    cases.push_back({"broadcast_to " + from.to_string(), &kBroadcast, {{from}}, one([to = to](const Inputs& x) {
                       return broadcast_to(x[0], to);
                     })});
  }
  return cases;
}

std::vector<GradientCase> slices() {
  struct Part {
    int64_t axis, start, length, step;
  };
  std::vector<GradientCase> cases;
  for (const Part& p :
       {Part{1, 0, 7, 1}, Part{1, 2, 3, 2}, Part{0, 1, 2, 1}, Part{1, 6, 1, 3}, Part{0, 2, 0, 1}, Part{1, 0, 3, 3}}) {
    cases.push_back({"slice " + std::to_string(p.start) + "+" + std::to_string(p.length) + "*" + std::to_string(p.step),
                     &kSlice,
                     {{Shape{3, 7}}},
                     one([p](const Inputs& x) { return slice(x[0], p.axis, p.start, p.length, p.step); })});
  }
  return cases;
}

void add_views(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          {.name = "reshape",
           .call = [](const Inputs& x, const json& a) { return reshape(x[0], shape(a)); },
           .gradients = {{"reshape", &kReshape, {{Shape{4, 6}}}, one([](const Inputs& x) {
                            return reshape(x[0], Shape{3, 8});
                          })}}},
          {.name = "permute",
           .call = [](const Inputs& x, const json& a) { return permute(x[0], a.at("axes")); },
           .gradients = {{"permute", &kPermute, {{Shape{2, 3, 4}}}, one([](const Inputs& x) {
                            return permute(x[0], {2, 0, 1});
                          })}}},
          {.name = "permute_reshape",
           .call = [](const Inputs& x, const json& a) { return reshape(permute(x[0], a.at("axes")), shape(a)); }},
          {.name = "broadcast_to",
           .call = [](const Inputs& x, const json& a) { return broadcast_to(x[0], shape(a)); },
           .gradients = broadcasts()},
          {.name = "slice",
           .call = [](const Inputs& x,
                      const json& a) { return slice(x[0], a.at("axis"), a.at("start"), a.at("length"), a.at("step")); },
           .gradients = slices()},
          {.name = "identity",
           .gradients = {{"identity", &kIdentity, {{Shape{3}}, {Shape{2}}}, one([](const Inputs& x) {
                            return record(kIdentity, {x[0], x[1]});
                          })}}},
          {.name = "concat",
           .call = [](const Inputs& x, const json& a) { return gabbro::concat(x, a.at("axis")); },
           .gradients = {{"concat", &kConcat, {{Shape{2, 3}}, {Shape{2, 0}}, {Shape{2, 1}}}, one([](const Inputs& x) {
                            return concat(x, 1);
                          })}}},
          {.name = "squeeze", .call = [](const Inputs& x, const json& a) { return squeeze(x[0], axes(a)); }},
          {.name = "expand_dims", .call = [](const Inputs& x, const json& a) { return expand_dims(x[0], axes(a)); }},
          {.name = "moveaxis",
           .call = [](const Inputs& x, const json& a) { return moveaxis(x[0], a.at("source"), a.at("to")); }},
          {.name = "swapaxes",
           .call = [](const Inputs& x, const json& a) { return swapaxes(x[0], a.at("a"), a.at("b")); }},
          {.name = "flatten",
           .call = [](const Inputs& x, const json& a) { return flatten(x[0], a.at("first"), a.at("last")); }},
          {.name = "stack", .call = [](const Inputs& x, const json& a) { return stack(x, a.at("axis")); }},
          {.name = "split",
           .call = [](const Inputs& x,
                      const json& a) { return split(x[0], a.at("parts"), a.at("axis")).at(result_index(a)); }},
          {.name = "split_at",
           .call = [](const Inputs& x,
                      const json& a) { return split_at(x[0], a.at("places"), a.at("axis")).at(result_index(a)); }},
          {.name = "unstack",
           .call = [](const Inputs& x, const json& a) { return unstack(x[0], a.at("axis")).at(result_index(a)); }},
          {.name = "meshgrid",
           .call = [](const Inputs& x, const json& a) { return meshgrid(x, a.at("xy")).at(result_index(a)); }},
          {.name = "pad", .call = padded},
          {.name = "repeat",
           .call = [](const Inputs& x, const json& a) { return repeat(x[0], a.at("times"), axis(a)); }},
          {.name = "tile", .call = [](const Inputs& x, const json& a) { return tile(x[0], a.at("times")); }},
          {.name = "roll", .call = [](const Inputs& x, const json& a) { return roll(x[0], a.at("shifts"), axes(a)); }},
          {.name = "flip",
           .call = [](const Inputs& x, const json& a) { return flip(x[0], axes(a)); },
           .gradients = {{"flip (3, 2, 5)", &kFlip, {{Shape{3, 2, 5}}}, one([](const Inputs& x) {
                            return flip(x[0], {0, 2});
                          })}}},
          {.name = "tril", .call = [](const Inputs& x, const json& a) { return tril(x[0], a.at("diagonal")); }},
          {.name = "triu", .call = [](const Inputs& x, const json& a) { return triu(x[0], a.at("diagonal")); }},
      });
}

// Negative indices count from the end.
void add_by_index(std::vector<Entry>& entries) {
  const auto rows = [] { return ints(Shape{5}, {3, 0, 3, -2, -4}); };
  const auto columns = [] { return ints(Shape{2, 3}, {3, 0, 3, -2, -4, 1}); };
  entries.insert(
      entries.end(),
      {
          {.name = "gather",
           .call = [](const Inputs& x, const json&) { return gather(x[0], x[1]); },
           .gradients = {{"gather", &kGather, {{Shape{4, 3}}}, one([=](const Inputs& x) {
                            return gather(x[0], rows());
                          })}}},
          {.name = "take_along_axis",
           .call = [](const Inputs& x, const json& a) { return take_along_axis(x[0], x[1], a.at("axis")); },
           .gradients = {{"take_along", &kTakeAlong, {{Shape{2, 4}}}, one([=](const Inputs& x) {
                            return take_along_axis(x[0], columns());
                          })}}},
          {.name = "scatter_add",
           .call = [](const Inputs& x, const json& a) { return scatter_add(x[0], x[1], x[2], a.at("axis")); },
           .gradients = {{"scatter_add", &kScatterAdd, {{Shape{2, 4}}, {Shape{2, 3}}}, one([=](const Inputs& x) {
                            return scatter_add(x[0], columns(), x[1]);
                          })}}},
          {.name = "put_along_axis",
           .call = [](const Inputs& x, const json& a) { return put_along_axis(x[0], x[1], x[2], *axis(a)); },
           .gradients = {{"scatter_set", &kScatterSet, {{Shape{2, 4}}, {Shape{2, 3}}}, one([=](const Inputs& x) {
                            return put_along_axis(x[0], columns(), x[1]);
                          })}}},
          {.name = "index_add",
           .call = [](const Inputs& x, const json&) { return index_add(x[0], x[1], x[2]); },
           .gradients = {{"index_add", &kIndexAdd, {{Shape{4, 2}}, {Shape{5, 2}}}, one([=](const Inputs& x) {
                            return index_add(x[0], rows(), x[1]);
                          })}}},
          {.name = "take", .call = [](const Inputs& x, const json& a) { return take(x[0], x[1], *axis(a)); }},
          {.name = "index", .call = [](const Inputs& x, const json& a) { return index(x[0], indices_of(x, a)); }},
          {.name = "resolve_index", .without_gradient = {{&kResolveIndex, "maps indices to indices"}}},
          {.name = "nonzero", .call = [](const Inputs& x, const json& a) { return nonzero(x[0]).at(result_index(a)); }},
          {.name = "unique",
           .call = [](const Inputs& x, const json& a) { return part_of(unique(x[0]), a.at("part")); }},
      });
}

void add_creation(std::vector<Entry>& entries) {
  entries.insert(
      entries.end(),
      {
          {.name = "iota",
           .call = [](const Inputs&,
                      const json& a) { return iota(device(), a.at("count"), dtype(a), a.at("start"), a.at("step")); },
           .without_gradient = {{&kIota, "has no input"}}},
          {.name = "arange",
           .call =
               [](const Inputs&, const json& a) {
                 return arange(device(), number(a.at("start")), number(a.at("stop")), number(a.at("step")), dtype(a));
               }},
          {.name = "linspace",
           .call =
               [](const Inputs&, const json& a) {
                 return linspace(device(), a.at("start"), a.at("stop"), a.at("count"), a.at("endpoint"), dtype(a));
               }},
          {.name = "eye",
           .call =
               [](const Inputs&, const json& a) {
                 return eye(device(), a.at("rows"), a.at("columns"), a.at("diagonal"), dtype(a));
               }},
          {.name = "tri",
           .call =
               [](const Inputs&, const json& a) {
                 return tri(device(), a.at("rows"), a.at("columns"), a.at("diagonal"), dtype(a));
               }},
          {.name = "full",
           .call = [](const Inputs&,
                      const json& a) { return full(device(), shape(a), number(a.at("value")), dtype(a)); }},
          {.name = "zeros_like", .call = [](const Inputs& x, const json&) { return zeros_like(x[0]); }},
          {.name = "ones_like", .call = [](const Inputs& x, const json&) { return ones_like(x[0]); }},
      });
}

}  // namespace

void add_arrays(std::vector<Entry>& entries) {
  add_views(entries);
  add_by_index(entries);
  add_creation(entries);
}

}  // namespace gabbro::cases
