// Tensors: creating them from numbers of the host, shapes and indices, arithmetic, computing and reading them back.
#pragma once

#include "gabbro/device.h"
#include "gabbro/dtype.h"
#include "gabbro/error.h"
#include "gabbro/graph/eval.h"
#include "gabbro/ops/create.h"
#include "gabbro/ops/elementwise.h"
#include "gabbro/ops/indexing.h"
#include "gabbro/ops/shapes.h"
#include "gabbro/plan/compiled.h"
#include "gabbro/tensor/shape.h"
#include "gabbro/tensor/tensor.h"
