// The processor time of this process.
#pragma once

namespace gabbro {

double processor_seconds();  // of all its threads, in user and in system code

}  // namespace gabbro
