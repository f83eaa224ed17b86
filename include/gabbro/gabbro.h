// The whole public API.
#pragma once

#include "gabbro/device.h"
#include "gabbro/file_faults.h"
#include "gabbro/image.h"
#include "gabbro/llm.h"
#include "gabbro/nn.h"
#include "gabbro/ops.h"
#include "gabbro/optim.h"
#include "gabbro/tensor.h"
