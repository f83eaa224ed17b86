// Files of the web page, which are part of the program (cmake/gabbro.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace gabbro::server {

struct PageFile {
  std::string_view name;  // "index.html", "app.js"
  std::string_view text;
};

const std::vector<PageFile>& page_files();

}  // namespace gabbro::server
