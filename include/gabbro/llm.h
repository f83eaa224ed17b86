// Language models: loading a GGUF file, chat prompts, sampling, and generation with a callback for each piece of text.
#pragma once

#include "gabbro/engine/chat.h"
#include "gabbro/engine/generate.h"
#include "gabbro/engine/sampler.h"
#include "gabbro/engine/session.h"
#include "gabbro/engine/text_encoder.h"
#include "gabbro/error.h"
