// Draws a picture with a pipeline of Stable Diffusion:
//   draw FOLDER PROMPT FILE.ppm [SEED]
#include <gabbro/image.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

using namespace gabbro;

namespace {

int run(const std::string& folder, const std::string& prompt, const std::string& path, uint64_t seed) {
  const auto pipeline = PicturePipeline::load(folder, {.device = "auto"});
  const PicturePipelineFacts& facts = pipeline->facts();
  std::fprintf(stderr, "%s on %s\n", facts.name.c_str(), facts.device_id.c_str());

  PictureOptions options{.steps = 20, .seed = seed};
  options.on_step = [](const PictureProgress& progress) {
    std::fprintf(stderr, "\rstep %lld of %lld", static_cast<long long>(progress.step),
                 static_cast<long long>(progress.steps));
  };
  const DrawnPicture picture = pipeline->draw(prompt, options);
  std::fprintf(stderr, ", %.1f s\n", picture.seconds);

  // The simplest file of pixels: a header, and red, green and blue of each pixel.
  std::ofstream file(path, std::ios::binary);
  file << "P6 " << picture.width << " " << picture.height << " 255\n";
  file.write(reinterpret_cast<const char*>(picture.pixels.data()), static_cast<std::streamsize>(picture.pixels.size()));
  file.close();
  if (!file) {
    std::fprintf(stderr, "draw: error: %s cannot be written\n", path.c_str());
    return 1;
  }
  std::printf("%lld x %lld\n", static_cast<long long>(picture.width), static_cast<long long>(picture.height));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: draw FOLDER PROMPT FILE.ppm [SEED]\n");
    return 2;
  }
  try {
    return run(argv[1], argv[2], argv[3], argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
  } catch (const Error& error) {
    std::fprintf(stderr, "draw: error: %s\n", error.what());
    if (!error.hint().empty()) std::fprintf(stderr, "hint: %s\n", error.hint().c_str());
    return static_cast<int>(error.code());
  }
}
