#include "tests/emulated_hip/cards.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstring>

namespace emulated_hip {
namespace {

// Published figures of one product of each target; the clocks are those that the runtime reports for it.
constexpr std::array<Card, 11> kCards = {{
    {"gfx906", "gfx906:sramecc+:xnack-", "AMD Instinct MI50", 64, 60, 16368, 1725, 1000, 4096, 4096, 64, false},
    {"gfx90a", "gfx90a:sramecc+:xnack-", "AMD Instinct MI210", 64, 104, 65520, 1700, 1600, 4096, 8192, 64, false},
    {"gfx942", "gfx942:sramecc+:xnack-", "AMD Instinct MI300X", 64, 304, 196592, 2100, 1300, 8192, 4096, 64, false},
    {"gfx950", "gfx950:sramecc+:xnack-", "AMD Instinct MI355X", 64, 256, 294896, 2400, 2000, 8192, 4096, 160, false},
    {"gfx1030", "gfx1030", "AMD Radeon RX 6900 XT", 32, 40, 16368, 2660, 1000, 256, 4096, 64, false},
    {"gfx1100", "gfx1100", "AMD Radeon RX 7900 XTX", 32, 48, 24560, 2482, 1249, 384, 6144, 64, false},
    {"gfx1101", "gfx1101", "AMD Radeon RX 7800 XT", 32, 30, 16368, 2565, 1218, 256, 4096, 64, false},
    {"gfx1102", "gfx1102", "AMD Radeon RX 7600", 32, 16, 8176, 2655, 1124, 128, 2048, 64, false},
    {"gfx1151", "gfx1151", "AMD Radeon 8060S Graphics", 32, 20, 65536, 2900, 1000, 256, 2048, 64, true},
    {"gfx1200", "gfx1200", "AMD Radeon RX 9060 XT", 32, 16, 16304, 3130, 1258, 128, 4096, 64, false},
    {"gfx1201", "gfx1201", "AMD Radeon RX 9070 XT", 32, 32, 16304, 2970, 1258, 256, 8192, 64, false},
}};

constexpr int kFirstBus = 3;

// "gfx90a" is 9.0: the last two digits (the last one is hexadecimal) are the minor number and the step.
int major_of(std::string_view target) {
  int major = 0;
  for (const char digit : target.substr(3, target.size() - 5)) major = major * 10 + (digit - '0');
  return major;
}
int minor_of(std::string_view target) { return target[target.size() - 2] - '0'; }

}  // namespace

const Card* find_card(std::string_view target) {
  const auto found = std::ranges::find(kCards, target, &Card::target);
  return found == kCards.end() ? nullptr : &*found;
}

std::string card_names() {
  std::string names;
  for (const Card& card : kCards) names.append(names.empty() ? "" : ", ").append(card.target);
  return names;
}

hipDeviceProp_t properties_of(const Card& card, int index, size_t memory) {
  hipDeviceProp_t p{};
  std::snprintf(p.name, sizeof p.name, "%.*s", static_cast<int>(card.name.size()), card.name.data());
  std::snprintf(p.gcnArchName, sizeof p.gcnArchName, "%.*s", static_cast<int>(card.architecture.size()),
                card.architecture.data());
  std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "emulated%07d", index);
  p.totalGlobalMem = p.totalConstMem = memory;
  p.totalConstMem = std::min<size_t>(memory, INT_MAX);
  p.sharedMemPerBlock = p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor = card.block_memory_kib << 10;
  p.maxSharedMemoryPerMultiProcessor = card.block_memory_kib << 10;
  const bool is_cdna = card.wave == 64;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = is_cdna ? 65536 : 196608;
  p.warpSize = card.wave;
  p.memPitch = INT_MAX;
  p.maxThreadsPerBlock = 1024;
  std::ranges::fill(p.maxThreadsDim, 1024);
  p.maxGridSize[0] = INT_MAX;
  p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.clockRate = card.clock_mhz * 1000;
  p.clockInstructionRate = 100000;
  p.memoryClockRate = card.memory_clock_mhz * 1000;
  p.memoryBusWidth = card.bus_bits;
  p.major = major_of(card.target);
  p.minor = minor_of(card.target);
  p.multiProcessorCount = card.units;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = is_cdna ? 40 : 32;
  p.integrated = card.integrated ? 1 : 0;
  p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.cooperativeLaunch = 1;
  p.cooperativeMultiDeviceLaunch = p.hostRegisterSupported = p.memoryPoolsSupported = p.managedMemory = 1;
  p.streamPrioritiesSupported = p.isLargeBar = p.canUseHostPointerForRegisteredMem = 1;
  p.asyncEngineCount = 2;
  p.pciBusID = kFirstBus + index;
  p.l2CacheSize = static_cast<int>(card.cache_kib << 10);
  p.textureAlignment = p.texturePitchAlignment = p.surfaceAlignment = 256;
  p.ECCEnabled = is_cdna ? 1 : 0;
  return p;
}

std::optional<int> attribute_of(const Card& card, const hipDeviceProp_t& p, hipDeviceAttribute_t attribute,
                                bool ranges) {
  switch (attribute) {
    case hipDeviceAttributeEccEnabled:
      return p.ECCEnabled;
    case hipDeviceAttributeAsyncEngineCount:
      return p.asyncEngineCount;
    case hipDeviceAttributeCanMapHostMemory:
      return p.canMapHostMemory;
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return p.canUseHostPointerForRegisteredMem;
    case hipDeviceAttributeClockRate:
      return p.clockRate;
    case hipDeviceAttributeComputeMode:
      return p.computeMode;
    case hipDeviceAttributeConcurrentKernels:
      return p.concurrentKernels;
    case hipDeviceAttributeConcurrentManagedAccess:
      return p.concurrentManagedAccess;
    case hipDeviceAttributeCooperativeLaunch:
      return p.cooperativeLaunch;
    case hipDeviceAttributeCooperativeMultiDeviceLaunch:
      return p.cooperativeMultiDeviceLaunch;
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      return p.directManagedMemAccessFromHost;
    case hipDeviceAttributeHostNativeAtomicSupported:
      return p.hostNativeAtomicSupported;
    case hipDeviceAttributeIntegrated:
      return p.integrated;
    case hipDeviceAttributeIsMultiGpuBoard:
      return p.isMultiGpuBoard;
    case hipDeviceAttributeKernelExecTimeout:
      return p.kernelExecTimeoutEnabled;
    case hipDeviceAttributeL2CacheSize:
      return p.l2CacheSize;
    case hipDeviceAttributeComputeCapabilityMajor:
      return p.major;
    case hipDeviceAttributeComputeCapabilityMinor:
      return p.minor;
    case hipDeviceAttributeManagedMemory:
      return p.managedMemory;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      return p.maxBlocksPerMultiProcessor;
    case hipDeviceAttributeMaxBlockDimX:
      return p.maxThreadsDim[0];
    case hipDeviceAttributeMaxBlockDimY:
      return p.maxThreadsDim[1];
    case hipDeviceAttributeMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case hipDeviceAttributeMaxGridDimX:
      return p.maxGridSize[0];
    case hipDeviceAttributeMaxGridDimY:
      return p.maxGridSize[1];
    case hipDeviceAttributeMaxGridDimZ:
      return p.maxGridSize[2];
    case hipDeviceAttributeMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case hipDeviceAttributeMaxPitch:
      return static_cast<int>(p.memPitch);
    case hipDeviceAttributeMemoryBusWidth:
      return p.memoryBusWidth;
    case hipDeviceAttributeMemoryClockRate:
      return p.memoryClockRate;
    case hipDeviceAttributeMultiprocessorCount:
      return p.multiProcessorCount;
    // A work group processor has two compute units.
    case hipDeviceAttributePhysicalMultiProcessorCount:
      return card.wave == 64 ? card.units : 2 * card.units;
    case hipDeviceAttributePageableMemoryAccess:
      return p.pageableMemoryAccess;
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
      return p.pageableMemoryAccessUsesHostPageTables;
    case hipDeviceAttributePciBusId:
      return p.pciBusID;
    case hipDeviceAttributePciDeviceId:
      return p.pciDeviceID;
    case hipDeviceAttributePciDomainId:
      return p.pciDomainID;
    case hipDeviceAttributeMaxRegistersPerBlock:
      return p.regsPerBlock;
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case hipDeviceAttributeSurfaceAlignment:
      return static_cast<int>(p.surfaceAlignment);
    case hipDeviceAttributeTextureAlignment:
      return static_cast<int>(p.textureAlignment);
    case hipDeviceAttributeTexturePitchAlignment:
      return static_cast<int>(p.texturePitchAlignment);
    case hipDeviceAttributeTotalConstantMemory:
      return static_cast<int>(p.totalConstMem);
    case hipDeviceAttributeWarpSize:
      return p.warpSize;
    case hipDeviceAttributeMemoryPoolsSupported:
      return p.memoryPoolsSupported;
    case hipDeviceAttributeVirtualMemoryManagementSupported:
      return ranges ? 1 : 0;
    case hipDeviceAttributeHostRegisterSupported:
      return p.hostRegisterSupported;
    case hipDeviceAttributeClockInstructionRate:
      return p.clockInstructionRate;
    case hipDeviceAttributeWallClockRate:
      return 100000;
    case hipDeviceAttributeIsLargeBar:
      return p.isLargeBar;
    case hipDeviceAttributeAsicRevision:
      return p.asicRevision;
    case hipDeviceAttributeCanUseStreamWaitValue:
      return 1;
    case hipDeviceAttributeImageSupport:
      return card.target == "gfx90a" || card.target == "gfx942" || card.target == "gfx950" ? 0 : 1;
    case hipDeviceAttributeFineGrainSupport:
      return 1;
    case hipDeviceAttributeNumberOfXccs:
      return card.target == "gfx942" || card.target == "gfx950" ? 8 : 1;
    case hipDeviceAttributeStreamPrioritiesSupported:
      return p.streamPrioritiesSupported;
    case hipDeviceAttributeUnifiedAddressing:
      return p.unifiedAddressing;
    default:
      return std::nullopt;  // of CUDA only, textures and surfaces
  }
}

}  // namespace emulated_hip
