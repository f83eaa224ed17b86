// Training: gradients, optimizers, schedules of the learning rate, clipping, mixed precision.
#pragma once

#include "gabbro/graph/autocast.h"
#include "gabbro/graph/history.h"
#include "gabbro/ops/grad.h"
#include "gabbro/train/clipping.h"
#include "gabbro/train/loss_scaler.h"
#include "gabbro/train/optimizer.h"
#include "gabbro/train/optimizers.h"
#include "gabbro/train/schedule.h"
