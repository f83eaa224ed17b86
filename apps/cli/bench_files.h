// Files of python/gabbro/bench that are part of the program: it and `python -m gabbro.bench` measure the same cases and
// write the same page. CMake makes the definitions of bench_files.cc.in.
#pragma once

#include <string_view>

namespace gabbro::cli {

std::string_view bench_cases();            // cases.json
std::string_view bench_report_template();  // report.html

}  // namespace gabbro::cli
