// Errors after which a device does nothing more for this process: both vendors' runtimes return them for every later
// call, and only a new process heals that. They share the numbers, from which this file takes them so that it can be
// tested without either; hip/runtime.cc and cuda/api_cuda.cc check that.
#pragma once

namespace gabbro::gpu {

inline constexpr int kDeinitialized = 4;
inline constexpr int kNoDevice = 100;
inline constexpr int kUncorrectable = 214;  // ECC
inline constexpr int kIllegalAddress = 700;
inline constexpr int kLaunchTimeout = 702;
inline constexpr int kAssert = 710;
inline constexpr int kStackError = 714;  // these five are CUDA's alone
inline constexpr int kIllegalInstruction = 715;
inline constexpr int kMisalignedAddress = 716;
inline constexpr int kInvalidAddressSpace = 717;
inline constexpr int kInvalidProgramCounter = 718;
inline constexpr int kLaunchFailure = 719;

constexpr bool is_lost(int error) {
  switch (error) {
    case kDeinitialized:
    case kNoDevice:
    case kUncorrectable:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kAssert:
    case kStackError:
    case kIllegalInstruction:
    case kMisalignedAddress:
    case kInvalidAddressSpace:
    case kInvalidProgramCounter:
    case kLaunchFailure:
      return true;
    default:
      return false;
  }
}

}  // namespace gabbro::gpu
