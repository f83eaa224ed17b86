// Rows in the file's layout, moved to their part of a matrix on a device.
#pragma once

#include "src/backend/stream.h"

namespace gabbro::streaming {

// `rows` says which of which matrix; `packed` whether the device packs it. `source` is memory of
// Device::allocate_host; `device_stage`, of a device that does not work in host memory, has room for these rows. Work
// is enqueued on `stream`.
void move_rows(Stream& stream, Device& device, const abi::PackRequest& rows, bool packed, const std::byte* source,
               std::byte* target, void* device_stage);

}  // namespace gabbro::streaming
