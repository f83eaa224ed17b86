#include "tests/emulated_hip/interpreter.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/emulated_hip/runtime.h"

namespace emulated_hip {
namespace {

struct Object;  // PyObject

// Python's stable C functions, of the process if it has them (its executable is Python), else of a libpython.
struct Api {
  int (*Py_IsInitialized_)();
  void (*Py_InitializeEx_)(int);
  void* (*PyEval_SaveThread_)();
  int (*PyGILState_Ensure_)();
  void (*PyGILState_Release_)(int);
  Object* (*PyImport_ImportModule_)(const char*);
  int (*PyRun_SimpleString_)(const char*, void*);
  Object* (*PyObject_CallMethod_)(Object*, const char*, const char*, ...);
  const char* (*PyUnicode_AsUTF8AndSize_)(Object*, long*);
  Object* (*PyBytes_FromStringAndSize_)(const char*, long);
  Object* (*PyObject_Str_)(Object*);
  void (*PyErr_Fetch_)(Object**, Object**, Object**);
  void (*PyErr_NormalizeException_)(Object**, Object**, Object**);
  void (*Py_DecRef_)(Object*);
};

template <class Function>
void find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(fmt::format("libpython has no {}", name));
}

void* open_python() {
  if (::dlsym(RTLD_DEFAULT, "Py_InitializeEx") != nullptr) return RTLD_DEFAULT;
  // RTLD_GLOBAL: extension modules look for Python's functions in the global scope.
  if (const char* name = std::getenv("EMULATED_GPU_PYTHON")) {
    if (void* library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
    throw std::runtime_error(fmt::format("EMULATED_GPU_PYTHON: {}", ::dlerror()));
  }
  constexpr int kOldest = 10, kNewest = 15;
  for (int minor = kNewest; minor >= kOldest; --minor) {
    if (void* library = ::dlopen(fmt::format("libpython3.{}.so.1.0", minor).c_str(), RTLD_NOW | RTLD_GLOBAL))
      return library;
  }
  throw std::runtime_error("no libpython of Python 3.10 or newer; EMULATED_GPU_PYTHON names one");
}

Api open_api() {
  void* const library = open_python();
  Api api{};
  find(library, "Py_IsInitialized", api.Py_IsInitialized_);
  find(library, "Py_InitializeEx", api.Py_InitializeEx_);
  find(library, "PyEval_SaveThread", api.PyEval_SaveThread_);
  find(library, "PyGILState_Ensure", api.PyGILState_Ensure_);
  find(library, "PyGILState_Release", api.PyGILState_Release_);
  find(library, "PyImport_ImportModule", api.PyImport_ImportModule_);
  find(library, "PyRun_SimpleStringFlags", api.PyRun_SimpleString_);
  find(library, "PyObject_CallMethod", api.PyObject_CallMethod_);
  find(library, "PyUnicode_AsUTF8AndSize", api.PyUnicode_AsUTF8AndSize_);
  find(library, "PyBytes_FromStringAndSize", api.PyBytes_FromStringAndSize_);
  find(library, "PyObject_Str", api.PyObject_Str_);
  find(library, "PyErr_Fetch", api.PyErr_Fetch_);
  find(library, "PyErr_NormalizeException", api.PyErr_NormalizeException_);
  find(library, "Py_DecRef", api.Py_DecRef_);
  if (api.Py_IsInitialized_() == 0) {
    api.Py_InitializeEx_(0);  // 0: the program's signal handlers stay
    api.PyEval_SaveThread_();
  }
  return api;
}

std::string take_error(const Api& api) {
  Object *type = nullptr, *value = nullptr, *trace = nullptr;
  api.PyErr_Fetch_(&type, &value, &trace);
  api.PyErr_NormalizeException_(&type, &value, &trace);
  Object* const text = value == nullptr ? nullptr : api.PyObject_Str_(value);
  const char* const words = text == nullptr ? nullptr : api.PyUnicode_AsUTF8AndSize_(text, nullptr);
  std::string message = words == nullptr ? "an unknown error" : words;
  for (Object* object : {type, value, trace, text}) {
    if (object != nullptr) api.Py_DecRef_(object);
  }
  return message;
}

// The folder of device.py is below this library's, as the build arranges it.
std::filesystem::path own_file() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&load_code), &info);
  return std::filesystem::canonical(info.dli_fname);
}

// Holds Python's lock.
class Python {
 public:
  Python() : api_(shared_api()), state_(api_.PyGILState_Ensure_()) {
    static Object* const device = import_device();
    device_ = device;
  }
  ~Python() { api_.PyGILState_Release_(state_); }
  Python(const Python&) = delete;
  Python& operator=(const Python&) = delete;

  // A new reference.
  Object* bytes(std::string_view data) {
    return api_.PyBytes_FromStringAndSize_(data.data(), static_cast<long>(data.size()));
  }
  template <class... Values>
  std::string call(const char* function, const char* format, Values... values) {
    Object* const result = api_.PyObject_CallMethod_(device_, function, format, values...);
    if (result == nullptr) throw std::runtime_error(take_error(api_));
    long size = 0;
    const char* const text = api_.PyUnicode_AsUTF8AndSize_(result, &size);
    std::string copy = text == nullptr ? take_error(api_) : std::string(text, static_cast<size_t>(size));
    api_.Py_DecRef_(result);
    return copy;
  }

 private:
  static const Api& shared_api() {
    static const Api api = open_api();
    return api;
  }
  Object* import_device() {
    const std::filesystem::path file = own_file();
    const std::string folders =
        fmt::format("import sys; sys.path[:0] = [r'{}', r'{}']", (file.parent_path() / "instructions").string(),
                    Runtime::get().settings.instructions);
    api_.PyRun_SimpleString_(folders.c_str(), nullptr);
    device_ = api_.PyImport_ImportModule_("device");
    if (device_ == nullptr) {
      std::string message = take_error(api_);
      api_.PyGILState_Release_(state_);
      throw std::runtime_error("cannot start the instruction emulator: " + message);
    }
    call("open_library", "s", file.c_str());
    if (std::getenv("EMULATED_GPU_LAUNCHES") != nullptr) std::atexit([] { Python().call("write_launches", nullptr); });
    return device_;
  }

  const Api& api_;
  int state_;
  Object* device_ = nullptr;
};

}  // namespace

std::string load_code(std::string_view code, const std::string& target) {
  Python python;
  return python.call("load", "Ns", python.bytes(code), target.c_str());
}

std::string launch_code(const MachineLaunch& launch) {
  const Settings& settings = Runtime::get().settings;
  Python python;
  return python.call("launch", "ls(III)IINkkkI", launch.module, launch.kernel.c_str(), launch.grid[0], launch.grid[1],
                     launch.grid[2], launch.block_threads, launch.block_memory, python.bytes(launch.args),
                     reinterpret_cast<unsigned long>(launch.ranges.data()),
                     static_cast<unsigned long>(launch.ranges.size() / 2), static_cast<unsigned long>(settings.seed),
                     settings.resident);
}

void unload_code(long module) {
  Python python;
  python.call("unload", "l", module);
}

}  // namespace emulated_hip
