// Preloaded by test_streaming.py: the Nth large read fails as GABBRO_FAULT_READS says ("eio:3", "short:3", "end:3",
// "hang:3"), and all after it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int reads;

static ssize_t faulty(const char* real, int file, void* target, size_t bytes, off_t offset) {
  ssize_t (*next)(int, void*, size_t, off_t) = (ssize_t(*)(int, void*, size_t, off_t))dlsym(RTLD_NEXT, real);
  const char* fault = getenv("GABBRO_FAULT_READS");
  const char* colon = fault ? strchr(fault, ':') : NULL;
  if (colon == NULL || bytes < 65536) return next(file, target, bytes, offset);
  if (__atomic_add_fetch(&reads, 1, __ATOMIC_RELAXED) < atoi(colon + 1)) return next(file, target, bytes, offset);
  if (strncmp(fault, "eio", 3) == 0) return errno = EIO, -1;
  if (strncmp(fault, "end", 3) == 0) return 0;
  if (strncmp(fault, "hang", 4) == 0) return sleep(30), errno = EIO, -1;
  return next(file, target, bytes / 2 / 4096 * 4096, offset);  // short: half of it, and then the rest
}

ssize_t pread(int file, void* target, size_t bytes, off_t offset) {
  return faulty("pread", file, target, bytes, offset);
}

ssize_t pread64(int file, void* target, size_t bytes, off_t offset) {
  return faulty("pread64", file, target, bytes, offset);
}
