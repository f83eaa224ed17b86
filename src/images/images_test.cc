// PNG and JPEG files: what is written is read, what other programs wrote too, and what is damaged is refused.
#include <gtest/gtest.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <fstream>
// After <cstdio>, which the header does not include.
#include <jpeglib.h>

#include "gabbro/error.h"
#include "src/images/jpeg.h"
#include "src/images/png.h"
#include "src/images/read_picture.h"

namespace gabbro::images {
namespace {

Picture pattern(int64_t width, int64_t height, int64_t channels) {
  Picture picture{.width = width, .height = height, .channels = channels};
  for (size_t i = 0; i < picture.size(); ++i) picture.pixels.push_back(static_cast<uint8_t>(7 * i % 251));
  return picture;
}

// A JPEG of libjpeg, with markers after its first.
std::vector<std::byte> jpeg_of(const Picture& picture, J_COLOR_SPACE space, const std::string& exif = "") {
  jpeg_compress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = static_cast<JDIMENSION>(picture.width);
  jpeg.image_height = static_cast<JDIMENSION>(picture.height);
  jpeg.input_components = static_cast<int>(picture.channels);
  jpeg.in_color_space = space;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg_start_compress(&jpeg, TRUE);
  if (!exif.empty())
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  jpeg_write_marker(&jpeg, JPEG_COM, reinterpret_cast<const JOCTET*>("hello"), 5);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(
        &picture.pixels[static_cast<size_t>(jpeg.next_scanline * picture.width * picture.channels)]);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  std::vector<std::byte> file(size);
  std::memcpy(file.data(), bytes, size);
  std::free(bytes);
  jpeg_destroy_compress(&jpeg);
  return file;
}

// Big-endian EXIF with an orientation and a UserComment in UTF-16.
std::string exif_of(int orientation, const std::string& comment) {
  const auto number = [](uint32_t value, int bytes) {
    std::string text;
    for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>((value >> (8 * i)) & 255);
    return text;
  };
  std::string data = std::string("UNICODE\0", 8);
  for (const char c : comment) data += std::string("\0", 1) + c;
  std::string tiff = "MM" + number(42, 2) + number(8, 4) + number(2, 2);
  tiff +=
      number(0x0112, 2) + number(3, 2) + number(1, 4) + number(static_cast<uint32_t>(orientation), 2) + number(0, 2);
  tiff += number(0x8769, 2) + number(4, 2) + number(1, 4) + number(38, 4) + number(0, 4);
  tiff += number(1, 2) + number(0x9286, 2) + number(7, 2) + number(static_cast<uint32_t>(data.size()), 4) +
          number(56, 4) + number(0, 4);
  return std::string("Exif\0\0", 6) + tiff + data;
}

TEST(Png, is_read_as_it_is_written) {
  for (const int64_t channels : {1, 3, 4}) {
    for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 1}, {17, 5}, {64, 33}}) {
      Picture picture = pattern(width, height, channels);
      picture.texts = {{"parameters", "a cat\nSteps: 1"}, {"other", "\xC3\xA4"}, {"wide", "\xE7\x8C\xAB"}};
      const Picture read = decode_png(encode_png(picture), "a.png");
      EXPECT_EQ(read.pixels, picture.pixels);
      EXPECT_EQ(read.channels, channels);
      EXPECT_EQ(read.texts, picture.texts);
    }
  }
}

TEST(Png, refuses_damaged_files) {
  const std::vector<std::byte> file = encode_png(pattern(40, 30, 3));
  for (size_t size = 0; size + 1 < file.size(); size += 5)
    EXPECT_THROW(decode_png(std::span(file).first(size), "a.png"), Error) << size;
  for (size_t i = 8; i < file.size(); i += 3) {  // each byte counts: chunks have checksums
    std::vector<std::byte> damaged = file;
    damaged[i] ^= std::byte{0x55};
    try {
      decode_png(damaged, "a.png");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadInput);
      EXPECT_EQ(std::string(error.what()).substr(0, 7), "a.png: ");
    }
  }
}

TEST(Png, refuses_more_than_the_limits) {
  const std::vector<std::byte> file = encode_png(pattern(100, 50, 1));
  EXPECT_THROW(decode_png(file, "a.png", {.side = 99}), Error);
  EXPECT_THROW(decode_png(file, "a.png", {.pixels = 4999}), Error);
  // A header of 30000 x 30000 pixels with data for a few.
  std::vector<std::byte> bomb = encode_png(pattern(30000, 4, 1));
  bomb.resize(bomb.size() / 2);
  EXPECT_THROW(decode_png(bomb, "a.png"), Error);
}

// libpng would allocate and clear the two gigabytes that the chunk says that it has.
TEST(Png, refuses_chunks_that_are_longer_than_the_file) {
  std::vector<std::byte> file = encode_png(pattern(9, 7, 3));
  const std::vector<std::byte> chunk = {std::byte{0x7F}, std::byte{0xFF}, std::byte{0xFF}, std::byte{0xF0},
                                        std::byte{'i'},  std::byte{'C'},  std::byte{'C'},  std::byte{'P'}};
  file.insert(file.begin() + 33, chunk.begin(), chunk.end());  // after the header
  try {
    decode_png(file, "a.png");
    ADD_FAILURE() << "accepts it";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a.png: the file is cut off");
  }
}

TEST(Png, refuses_texts_that_png_has_not) {
  Picture picture = pattern(2, 2, 3);
  picture.texts = {{"", "a"}};
  EXPECT_THROW(encode_png(picture), Error);
  picture.texts = {{"a", std::string("b\0c", 3)}};
  EXPECT_THROW(encode_png(picture), Error);
  picture.texts.clear();
  picture.pixels.pop_back();
  EXPECT_THROW(encode_png(picture), Error);
}

TEST(Jpeg, is_read) {
  Picture gray = pattern(16, 8, 1);
  std::ranges::fill(gray.pixels, uint8_t{77});
  const Picture read = decode_jpeg(jpeg_of(gray, JCS_GRAYSCALE), "a.jpg");
  EXPECT_EQ(read.channels, 1);
  EXPECT_NEAR(read.pixels[5], 77, 1);
  ASSERT_EQ(read.texts.size(), 1u);
  EXPECT_EQ(read.texts[0].second, "hello");
  Picture color{.width = 8, .height = 8, .channels = 3};
  for (int i = 0; i < 64; ++i) color.pixels.insert(color.pixels.end(), {200, 40, 90});
  const Picture rgb = decode_jpeg(jpeg_of(color, JCS_RGB), "a.jpg");
  EXPECT_NEAR(rgb.pixels[0], 200, 3);
  EXPECT_NEAR(rgb.pixels[1], 40, 3);
  EXPECT_NEAR(rgb.pixels[2], 90, 3);
  Picture cmyk{.width = 8, .height = 8, .channels = 4};
  for (int i = 0; i < 64; ++i) cmyk.pixels.insert(cmyk.pixels.end(), {255, 127, 0, 255});
  const Picture converted = decode_jpeg(jpeg_of(cmyk, JCS_CMYK), "a.jpg");  // libjpeg marks it as Adobe's: inverted
  EXPECT_EQ(converted.channels, 3);
  EXPECT_NEAR(converted.pixels[0], 255, 3);
  EXPECT_NEAR(converted.pixels[1], 127, 3);
  EXPECT_NEAR(converted.pixels[2], 0, 3);
}

TEST(Jpeg, is_set_upright) {
  Picture picture{.width = 16, .height = 8, .channels = 1};
  for (int i = 0; i < 128; ++i) picture.pixels.push_back(i % 16 < 8 ? 10 : 240);  // the left half is dark
  // For each orientation: whether the first pixel is dark, and the size.
  const std::tuple<int, bool, int64_t> rows[] = {{1, true, 16}, {2, false, 16}, {3, false, 16}, {4, true, 16},
                                                 {5, true, 8},  {6, true, 8},   {7, false, 8},  {8, false, 8}};
  for (const auto& [orientation, dark, width] : rows) {
    const Picture read = decode_jpeg(jpeg_of(picture, JCS_GRAYSCALE, exif_of(orientation, "Steps: 1")), "a.jpg");
    EXPECT_EQ(read.width, width) << orientation;
    EXPECT_EQ(read.pixels[0] < 128, dark) << orientation;
    EXPECT_EQ(read.texts.back(), (std::pair<std::string, std::string>{"parameters", "Steps: 1"}));
  }
}

TEST(Jpeg, refuses_damaged_files) {
  const std::vector<std::byte> file = jpeg_of(pattern(40, 30, 3), JCS_RGB);
  for (size_t size = 0; size + 2 < file.size(); size += 7)
    EXPECT_THROW(decode_jpeg(std::span(file).first(size), "a.jpg"), Error) << size;
  EXPECT_THROW(decode_jpeg(file, "a.jpg", {.side = 39}), Error);
  EXPECT_THROW(decode_jpeg(file, "a.jpg", {.pixels = 100}), Error);
}

TEST(ReadPicture, by_the_first_bytes) {
  const std::string path = testing::TempDir() + "/picture.bin";
  const auto write = [&](std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  };
  write(encode_png(pattern(3, 2, 3)));
  EXPECT_EQ(read_picture(path).width, 3);
  write(jpeg_of(pattern(4, 2, 3), JCS_RGB));
  EXPECT_EQ(read_picture(path).width, 4);
  write(std::as_bytes(std::span("GIF89a")));
  EXPECT_THROW(read_picture(path), Error);
  EXPECT_THROW(read_picture(path + ".missing"), Error);
}

TEST(ToRgb, repeats_gray_and_lays_over_white) {
  Picture gray{.width = 2, .height = 1, .channels = 1, .pixels = {1, 200}};
  EXPECT_EQ(to_rgb(gray).pixels, (std::vector<uint8_t>{1, 1, 1, 200, 200, 200}));
  Picture clear{.width = 2, .height = 1, .channels = 4, .pixels = {10, 20, 30, 0, 10, 20, 30, 255}};
  EXPECT_EQ(to_rgb(clear).pixels, (std::vector<uint8_t>{255, 255, 255, 10, 20, 30}));
}

}  // namespace
}  // namespace gabbro::images
