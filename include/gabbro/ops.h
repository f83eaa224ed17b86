// All operations, as functions on lazy tensors. Each checks its arguments and throws bad_input "[op] ..."; what it
// returns is computed when it is read, or by eval(). Floats are f32 unless said otherwise.
#pragma once

#include "gabbro/ops/create.h"
#include "gabbro/ops/elementwise.h"
#include "gabbro/ops/image.h"
#include "gabbro/ops/indexing.h"
#include "gabbro/ops/loss.h"
#include "gabbro/ops/neural.h"
#include "gabbro/ops/products.h"
#include "gabbro/ops/random.h"
#include "gabbro/ops/recurrent.h"
#include "gabbro/ops/reduce.h"
#include "gabbro/ops/resize.h"
#include "gabbro/ops/shapes.h"
