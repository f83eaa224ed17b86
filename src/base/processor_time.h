// The processor time of this process and of its threads.
#pragma once

namespace gabbro {

double processor_seconds();         // of all its threads, in user and in system code
double thread_processor_seconds();  // of the calling thread

}  // namespace gabbro
