// Libraries that only a download needs, opened at run time: commands that run models neither need nor load them.
#pragma once

#include <initializer_list>
#include <string>

namespace gabbro::hub {

class SharedLibrary {
 public:
  // The first of these names that can be opened; it stays open. Throws failed() with a hint that names the Debian
  // package.
  SharedLibrary(std::initializer_list<const char*> names, const char* package);

  // Throws failed() where the library has no such function.
  template <class Function>
  void bind(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name) const;

  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace gabbro::hub
