// Tensors of a part in another format, and the files that hold them.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "src/formats/checkpoint.h"
#include "src/formats/file_type.h"

namespace gabbro::pictures {

// A tensor of the new file.
struct ConvertedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape, stored;  // `stored`: as the file has it
  std::vector<std::byte> bytes;
};

// True of formats that every tensor is stored in: f32, f16, bf16.
inline bool is_plain(DType dtype) { return !is_quantized(dtype); }

// `base` plain: all tensors get it. Else matrices, and convolutions as matrices [O, I · taps], get it if their rows are
// whole blocks, else f16, and vectors f32. Throws bad_input that names a tensor with values that are not numbers, or
// too large for the format; `path`: what messages call its file.
ConvertedTensor convert_tensor(const std::string& path, const CheckpointTensor& tensor, DType base);

// Shapes of tensors that are stored as matrices are in the fields comfy.gguf.orig_shape.NAME. `fields`: further texts.
void write_gguf(const std::string& path, const std::string& architecture, const std::deque<ConvertedTensor>& tensors,
                const FileType& type, const std::map<std::string, std::string>& fields);
void write_safetensors(const std::string& path, const std::deque<ConvertedTensor>& tensors,
                       std::map<std::string, std::string> metadata = {});

}  // namespace gabbro::pictures
