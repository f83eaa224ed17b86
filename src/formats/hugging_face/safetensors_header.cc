#include "src/formats/hugging_face/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "src/base/error.h"
#include "src/base/quote.h"
#include "src/formats/gguf/gguf_parse.h"

namespace gabbro::safetensors {
namespace {

using nlohmann::json;

// Takes the header as it comes, so that a key that is there twice is seen, and nesting costs nothing.
//   { name: { "dtype": text, "shape": [numbers], "data_offsets": [begin, end] }, "__metadata__": { text: text } }
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(std::string_view file, size_t at) : file_(file), at_(at) {}

  Header take() { return std::move(header_); }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) return go(Place::kHeader);
    if (place_ != Place::kEntry) refuse("an object");
    if (key_ == "__metadata__") {
      keys_.clear();
      return go(Place::kMetadata);
    }
    HeaderEntry& entry = header_.entries.emplace_back();
    entry.name = key_;
    has_dtype_ = has_shape_ = false;
    offsets_.clear();
    return go(Place::kTensor);
  }

  bool key(std::string& key) override {
    if (place_ == Place::kHeader) {
      if (!names_.insert(key).second) fail("tensor {}: is there twice", quote(key));
      key_ = key;
      return go(Place::kEntry);
    }
    if (place_ == Place::kMetadata) {
      if (!keys_.insert(key).second) fail("metadata {}: is there twice", quote(key));
      field_ = key;
      return go(Place::kMetadataValue);
    }
    field_ = key;
    if (key == "dtype" && !has_dtype_) return go(Place::kDType);
    if (key == "shape" && !has_shape_) return go(Place::kShapeStart);
    if (key == "data_offsets" && offsets_.empty()) return go(Place::kOffsetsStart);
    fail("tensor {}: field {} is {}", quote(key_), quote(key),
         key == "dtype" || key == "shape" || key == "data_offsets" ? "there twice" : "not known");
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (!has_dtype_ || !has_shape_ || offsets_.empty()) {
        fail("tensor {}: has no {}", quote(key_), !has_dtype_ ? "dtype" : !has_shape_ ? "shape" : "data_offsets");
      }
      return go(Place::kHeader);
    }
    return go(place_ == Place::kMetadata ? Place::kHeader : Place::kEnd);
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShapeStart) return go(Place::kShape);
    if (place_ == Place::kOffsetsStart) return go(Place::kOffsets);
    refuse("an array");
  }

  bool end_array() override {
    HeaderEntry& entry = header_.entries.back();
    if (place_ == Place::kShape) {
      has_shape_ = true;
    } else {
      if (offsets_.size() != 2) fail("tensor {}: data_offsets has {} numbers", quote(key_), offsets_.size());
      entry.begin = offsets_[0];
      entry.end = offsets_[1];
    }
    return go(Place::kTensor);
  }

  bool number_unsigned(uint64_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) refuse("a number");
    (place_ == Place::kShape ? header_.entries.back().shape : offsets_).push_back(value);
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::kMetadataValue) {
      header_.metadata[field_] = text;
      return go(Place::kMetadata);
    }
    if (place_ != Place::kDType) refuse("a text");
    header_.entries.back().dtype = text;
    has_dtype_ = true;
    return go(Place::kTensor);
  }

  bool null() override { refuse("null"); }
  bool boolean(bool) override { refuse("a bool"); }
  bool number_integer(int64_t) override { refuse("a negative number"); }
  bool number_float(double, const std::string&) override { refuse("a fraction, or a number beyond 2^64"); }
  bool binary(json::binary_t&) override { refuse("binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("the header is not JSON at byte {}", at_ + position - std::min<size_t>(position, 1));
  }

 private:
  enum class Place {
    kStart,
    kHeader,
    kEntry,
    kTensor,
    kDType,
    kShapeStart,
    kShape,
    kOffsetsStart,
    kOffsets,
    kMetadata,
    kMetadataValue,
    kEnd
  };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw bad_input("{}: {}", file_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse(const char* what) const {
    if (place_ == Place::kStart || place_ == Place::kEnd) fail("the header is {}, not an object", what);
    if (place_ == Place::kMetadataValue) fail("metadata {}: is {}, not a text", quote(field_), what);
    if (place_ == Place::kEntry) fail("tensor {}: is {}, not an object", quote(key_), what);
    fail("tensor {}: {} has {}", quote(key_), field_, what);
  }

  std::string_view file_;
  size_t at_;
  Header header_;
  Place place_ = Place::kStart;
  std::string key_, field_;
  std::unordered_set<std::string> names_, keys_;
  bool has_dtype_ = false, has_shape_ = false;
  std::vector<uint64_t> offsets_;
};

}  // namespace

Header read_header(std::string_view text, std::string_view file, size_t at) {
  HeaderReader reader(file, at);
  json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take();
}

std::string write_header(const Header& header) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) document["__metadata__"] = header.metadata;
  for (const HeaderEntry& entry : header.entries) {
    document[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  try {
    return document.dump();
  } catch (const json::type_error&) {
    throw bad_input("a name or text of a safetensors file is not UTF-8");
  }
}

}  // namespace gabbro::safetensors
