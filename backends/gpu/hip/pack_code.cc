// pack_code ARCHIVE IMAGE...: packs code objects into the archive that the plugin embeds (code_archive.h). An image is
// a file SOURCE.TARGET.hsaco, a plain ELF file of that target.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/gpu/hip/code_packer.h"

namespace {

gabbro::gpu::hip::CodeImage read_image(const std::filesystem::path& path) {
  const std::string name = path.stem().string();
  const size_t dot = name.find('.');
  if (path.extension() != ".hsaco" || dot == std::string::npos)
    throw std::runtime_error(fmt::format("{}: expected a name like rms_norm.gfx1100.hsaco", path.string()));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path.string()));
  return {name.substr(dot + 1), name.substr(0, dot), {std::istreambuf_iterator<char>(file), {}}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "pack_code: error: expected ARCHIVE IMAGE...\n");
    return 2;
  }
  try {
    std::vector<gabbro::gpu::hip::CodeImage> images;
    for (int i = 2; i < argc; ++i) images.push_back(read_image(argv[i]));
    const std::string archive = gabbro::gpu::hip::pack_code(std::move(images));
    std::ofstream file(argv[1], std::ios::binary | std::ios::trunc);
    file.write(archive.data(), static_cast<std::streamsize>(archive.size()));
    file.close();
    if (!file) throw std::runtime_error(fmt::format("{}: cannot be written", argv[1]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pack_code: error: %s\n", error.what());
    return 2;
  }
  return 0;
}
