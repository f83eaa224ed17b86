// Devices: listing and opening them, their memory, waiting for their work.
#pragma once

#include "gabbro/backend/device.h"
#include "gabbro/error.h"
