// Wrappers that record the calls of a table of C functions (call_trace.h). A wrapper is made from the function's type:
// numbers and texts are written in full, pointers by name, the data behind them never.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "backends/gpu/hip/call_trace.h"

namespace gabbro::gpu::hip {

// A function's name as a template argument.
template <size_t N>
struct CallName {
  char text[N];
  constexpr CallName(const char (&name)[N]) { std::copy_n(name, N, text); }  // NOLINT(google-explicit-constructor)
};

// "stream" for ihipStream_t.
template <class T>
const std::string& kind_of() {
  static const std::string kind = [] {
    int status = 0;
    char* const readable = ::abi::__cxa_demangle(typeid(T*).name(), nullptr, nullptr, &status);
    std::string name = readable == nullptr ? "object" : readable;
    std::free(readable);
    if (const size_t scope = name.rfind(':'); scope != std::string::npos) name.erase(0, scope + 1);
    std::erase(name, '*');
    for (const char* prefix : {"ihip", "hip"}) {
      if (name.starts_with(prefix)) name.erase(0, std::string_view(prefix).size());
    }
    if (name.ends_with("_t")) name.resize(name.size() - 2);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
  }();
  return kind;
}

template <class T>
concept IsComplete = requires {
  sizeof(T);
};
// A pointer to an opaque object of the runtime.
template <class T>
concept IsHandle =
    std::is_pointer_v<T> && std::is_class_v<std::remove_pointer_t<T>> && !IsComplete<std::remove_pointer_t<T>>;

constexpr bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

template <class T>
std::string input_text(CallTrace& trace, T value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return std::to_string(value);
  } else if constexpr (std::is_same_v<T, const char*>) {
    return value == nullptr ? "null" : json_text(value);
  } else if constexpr (std::is_same_v<T, void*> || std::is_same_v<T, const void*>) {
    return trace.memory(value);
  } else if constexpr (IsHandle<T>) {
    return trace.handle(kind_of<std::remove_pointer_t<T>>(), value);
  } else {
    return value == nullptr ? "null" : "\"data\"";
  }
}

// Output of a call through argument `index`; empty if the argument is an input.
template <size_t index, class T, class All>
std::string output_text(CallTrace& trace, std::string_view name, T value, const All& all) {
  using Target = std::remove_pointer_t<T>;
  if constexpr (!std::is_pointer_v<T> || std::is_const_v<Target>) {
    return {};
  } else if constexpr (std::is_same_v<T, void**>) {
    if constexpr (index == 0 && std::tuple_size_v < All >> 1) {  // later ones are lists of kernel arguments
      const std::string kind = contains(name, "Host") ? "pinned" : contains(name, "Address") ? "range" : "mem";
      return trace.created_memory(kind, *value, static_cast<size_t>(std::get<1>(all)));
    } else {
      return {};
    }
  } else if constexpr (std::is_same_v<T, char*>) {
    return json_text(value);
  } else if constexpr (std::is_arithmetic_v<Target> || std::is_enum_v<Target>) {
    return value == nullptr ? std::string("null") : input_text(trace, *value);
  } else if constexpr (IsHandle<Target>) {
    return trace.created_handle(kind_of<std::remove_pointer_t<Target>>(), *value);
  } else {
    return {};
  }
}

template <CallName name, class Result, class... Arguments>
struct RecordedCall {
  static inline Result (*original)(Arguments...) = nullptr;
  static inline CallTrace* trace = nullptr;

  static Result call(Arguments... arguments) {
    std::string inputs, outputs;
    const auto append = [](std::string& list, const std::string& text) {
      if (!text.empty()) list += (list.empty() ? "" : ",") + text;
    };
    (append(inputs, input_text(*trace, arguments)), ...);
    const CallTrace::Call recorded = trace->begin(name.text, inputs);
    const Result result = original(arguments...);
    if (result == Result{}) {
      const std::tuple<Arguments...> all(arguments...);
      [&]<size_t... i>(std::index_sequence<i...>) {
        (append(outputs, output_text<i>(*trace, name.text, std::get<i>(all), all)), ...);
      }
      (std::index_sequence_for<Arguments...>());
    }
    trace->end(recorded, static_cast<int>(result), outputs);
    return result;
  }
};

// Replaces the function by its wrapper. Functions that the library lacks (null), and those that return no error code,
// stay unchanged.
template <CallName name, class Result, class... Arguments>
void record_calls(CallTrace& trace, Result (*&function)(Arguments...)) {
  if constexpr (std::is_enum_v<Result>) {
    if (function == nullptr) return;
    using Wrapper = RecordedCall<name, Result, Arguments...>;
    Wrapper::trace = &trace;
    Wrapper::original = std::exchange(function, &Wrapper::call);
  }
}

}  // namespace gabbro::gpu::hip
