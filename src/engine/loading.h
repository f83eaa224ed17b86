// Loading: a model's files become a LoadedModel. Private to src/engine.
#pragma once

#include "src/engine/loaded_model.h"
#include "src/formats/checkpoint.h"

namespace gabbro {

// The beginning of any loading: tokenizer, templates, sampling, and, if loaded.device is null, the device of the
// options. Throws bad_input, and kNoDevice.
void begin_loading(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& loaded);

// A model that is not an encoder-decoder, and its facts but for the cache's. loaded.device may be given. Throws
// bad_input that names what is wrong with the file or an option, and kNoDevice if the device has too little memory.
void load_language_model(const Checkpoint& checkpoint, const LoadOptions& options, LoadedModel& loaded);

// Adds the warnings of all that begin_loading() read. Throws bad_input where the vocabulary has more tokens than
// facts.vocabulary.
void add_warnings_of_texts(const Checkpoint& checkpoint, LoadedModel& loaded);

}  // namespace gabbro
