// Names and texts of errors.
#include <hip/hip_runtime_api.h>

namespace {

struct Text {
  hipError_t error;
  const char* name;
  const char* text;
};

#define EMULATED_HIP_TEXT(error, text) \
  { error, #error, text }
constexpr Text kTexts[] = {
    EMULATED_HIP_TEXT(hipSuccess, "no error"),
    EMULATED_HIP_TEXT(hipErrorInvalidValue, "invalid argument"),
    EMULATED_HIP_TEXT(hipErrorOutOfMemory, "out of memory"),
    EMULATED_HIP_TEXT(hipErrorNotInitialized, "initialization error"),
    EMULATED_HIP_TEXT(hipErrorDeinitialized, "driver shutting down"),
    EMULATED_HIP_TEXT(hipErrorInvalidConfiguration, "invalid configuration argument"),
    EMULATED_HIP_TEXT(hipErrorInvalidDevicePointer, "invalid device pointer"),
    EMULATED_HIP_TEXT(hipErrorInvalidDeviceFunction, "invalid device function"),
    EMULATED_HIP_TEXT(hipErrorNoDevice, "no ROCm-capable device is detected"),
    EMULATED_HIP_TEXT(hipErrorInvalidDevice, "invalid device ordinal"),
    EMULATED_HIP_TEXT(hipErrorInvalidImage, "device kernel image is invalid"),
    EMULATED_HIP_TEXT(hipErrorMapFailed, "mapping of buffer object failed"),
    EMULATED_HIP_TEXT(hipErrorUnmapFailed, "unmapping of buffer object failed"),
    EMULATED_HIP_TEXT(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    EMULATED_HIP_TEXT(hipErrorInvalidKernelFile, "invalid kernel file"),
    EMULATED_HIP_TEXT(hipErrorSharedObjectInitFailed, "shared object initialization failed"),
    EMULATED_HIP_TEXT(hipErrorInvalidHandle, "invalid resource handle"),
    EMULATED_HIP_TEXT(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    EMULATED_HIP_TEXT(hipErrorNotFound, "named symbol not found"),
    EMULATED_HIP_TEXT(hipErrorNotReady, "device not ready"),
    EMULATED_HIP_TEXT(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    EMULATED_HIP_TEXT(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    EMULATED_HIP_TEXT(hipErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    EMULATED_HIP_TEXT(hipErrorContextIsDestroyed, "context is destroyed"),
    EMULATED_HIP_TEXT(hipErrorHostMemoryAlreadyRegistered,
                      "part or all of the requested memory range is already mapped"),
    EMULATED_HIP_TEXT(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    EMULATED_HIP_TEXT(hipErrorLaunchFailure, "unspecified launch failure"),
    EMULATED_HIP_TEXT(hipErrorNotSupported, "operation not supported"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    EMULATED_HIP_TEXT(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    EMULATED_HIP_TEXT(hipErrorStreamCaptureWrongThread,
                      "attempt to terminate a thread-local capture sequence from another thread"),
    EMULATED_HIP_TEXT(hipErrorUnknown, "unknown error"),
};
#undef EMULATED_HIP_TEXT

const Text& text_of(hipError_t error) {
  for (const Text& text : kTexts) {
    if (text.error == error) return text;
  }
  return kTexts[sizeof kTexts / sizeof kTexts[0] - 1];
}

}  // namespace

const char* hipGetErrorString(hipError_t error) { return text_of(error).text; }
const char* hipGetErrorName(hipError_t error) { return text_of(error).name; }
