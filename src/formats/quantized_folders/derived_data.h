// The bytes of tensors that are made of others when they are first read: a published quantized form in the layout of
// our block formats. Their memory is reserved, and has pages while they are in use.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "src/base/mapped_file.h"

namespace gabbro {

// Writes a tensor's bytes; throws bad_input if the values of the file are not weights.
using FillData = std::function<void(std::span<std::byte> out)>;

class DerivedData {
 public:
  // `memory` is part of what `file` has mapped.
  DerivedData(std::shared_ptr<const MappedFile> file, std::span<std::byte> memory, FillData fill)
      : file_(std::move(file)), memory_(memory), fill_(std::move(fill)) {}

  // Makes the bytes, unless they are there; of several threads one does.
  void prepare();
  // Gives their pages back; the next prepare() makes them again.
  void release();

 private:
  std::mutex mutex_;
  bool ready_ = false;
  std::shared_ptr<const MappedFile> file_;
  std::span<std::byte> memory_;
  FillData fill_;
};

// Memory of at least `bytes` that has no pages yet; `name` is what messages call it. Throws failed() where the address
// space is full.
std::shared_ptr<const MappedFile> reserve_memory(const std::string& name, size_t bytes);

// body(begin, end) for parts of [0, count) on all processors; the first exception is thrown again.
void for_row_ranges(int64_t count, int64_t least, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace gabbro
