#include "src/testgen/embedded.h"

#include "src/base/error.h"

namespace gabbro::testgen {

std::string_view embedded_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.name == name) return file.text;
  }
  throw failed("this program was built without its file {}", name);
}

}  // namespace gabbro::testgen
