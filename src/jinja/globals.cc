// The global functions: Jinja's own, and the two that transformers adds.
#include <algorithm>
#include <array>

#include "src/jinja/library.h"
#include "src/jinja/marks.h"
#include "src/jinja/objects.h"
#include "src/jinja/operators.h"

namespace gabbro::jinja {
namespace {

constexpr uint64_t kMaxRange = 100000;  // Jinja's sandbox allows no more

Value make_range(Runtime& runtime, const Args& args) {
  if (!args.named.empty()) throw runtime.error("range() takes no keyword arguments");
  const Bound bound(runtime, "range", args, {"start", "stop", "step"}, 1);
  const int64_t start = bound.has(1) ? bound.integer(0, 0) : 0;
  const int64_t stop = bound.has(1) ? bound.integer(1, 0) : bound.integer(0, 0);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) throw runtime.error("range() arg 3 must not be zero");
  // Unsigned, because the distance of two integers may need 64 bits.
  const bool empty = step > 0 ? stop <= start : stop >= start;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : ~static_cast<uint64_t>(step) + 1;
  const uint64_t count = empty ? 0 : (distance - 1) / stride + 1;
  if (count > kMaxRange) {
    throw runtime.error("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", kMaxRange);
  }
  return make_object<RangeObject>(start, stop, step, static_cast<int64_t>(count));
}

Value make_namespace(Runtime& runtime, const Args& args) {
  auto object = std::make_shared<Namespace>(make_dict(runtime, args));
  runtime.keep(object);
  return Value(std::static_pointer_cast<Object>(object));
}

Value make_cycler(Runtime& runtime, const Args& args) {
  if (!args.named.empty()) throw runtime.error("cycler() takes no keyword arguments");
  if (args.positional.empty()) throw runtime.error("at least one item has to be provided");
  return make_object<Cycler>(args.positional, runtime.tuple(args.positional).depth());
}

Value make_joiner(Runtime& runtime, const Args& args) {
  const Bound bound(runtime, "joiner", args, {"sep"});
  return make_object<Joiner>(runtime.checked(bound.get(0, ", ")));
}

Value raise_exception(Runtime& runtime, const Args& args) {
  const Bound bound(runtime, "raise_exception", args, {"message"}, 1);
  throw runtime.error("{}", to_text(runtime, bound[0]).bytes());
}

Value strftime_now(Runtime& runtime, const Args& args) {
  const Bound bound(runtime, "strftime_now", args, {"format"}, 1);
  const std::string format = bound.string(0, "");
  if (format.size() > 256) throw runtime.error("the format of a date is longer than 256 bytes");
  const std::time_t now = runtime.now();
  std::tm local = {};
  localtime_r(&now, &local);
  std::array<char, 16384> buffer;  // a conversion gives at most some 30 characters for its two
  const size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return mark_as(std::string(buffer.data(), size), {&bound[0]});
}

Value dict_function(Runtime& runtime, const Args& args) { return runtime.dict(make_dict(runtime, args)); }

}  // namespace

Dict make_dict(Runtime& runtime, const Args& args) {
  if (args.positional.size() > 1) {
    throw runtime.error("dict expected at most 1 argument, got {}", args.positional.size());
  }
  Dict result;
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      for (const auto& [key, value] : source.dict().entries()) result.set(runtime, key, value);
    } else {
      for (const Value& pair : collect(runtime, source)) {
        const std::vector<Value> items = collect(runtime, pair);
        if (items.size() != 2)
          throw runtime.error("dictionary update sequence element has length {}; 2 is required", items.size());
        result.set(runtime, items[0], items[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) result.set(runtime, Value(name), value);
  return result;
}

bool find_global(std::string_view name, Value* value) {
  using GlobalBody = Value (*)(Runtime&, const Args&);
  static constexpr std::pair<std::string_view, GlobalBody> kGlobals[] = {
      {"range", make_range},          {"namespace", make_namespace}, {"dict", dict_function},
      {"cycler", make_cycler},        {"joiner", make_joiner},       {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
  };
  const auto found =
      std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](const auto& e) { return e.first == name; });
  if (found == std::end(kGlobals)) return false;
  *value = make_object<Function>(std::string(name), found->second);
  return true;
}

}  // namespace gabbro::jinja
