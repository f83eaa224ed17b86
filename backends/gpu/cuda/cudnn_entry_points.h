// The entry points of cuDNN 9 that we call, as its documentation of the legacy API and of the graph API has them: the
// library's headers need not be installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gabbro::gpu::cudnn {

struct Handle;
struct TensorDescriptor;
struct FilterDescriptor;
struct ConvolutionDescriptor;

enum Status : int { kSuccess = 0 };
enum DataType : int { kFloat = 0, kHalf = 2, kBFloat16 = 9 };
enum TensorFormat : int { kNchw = 0 };
enum ConvolutionMode : int { kCrossCorrelation = 1 };
// kTensorOp: matrix cores for f16. kFma: no TF32, whose f32 products have 10 bits.
enum MathType : int { kTensorOp = 1, kFma = 3 };

struct AlgorithmResult {
  int algorithm;
  int status;
  float milliseconds;
  size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};

inline constexpr int kAlgorithms = 8;  // of forward convolutions; there are fewer of backward ones

// The graph API: descriptors of one type with named attributes.
struct BackendDescriptor;
enum DescriptorType : int {
  kConvolution = 1,
  kEngineConfiguration = 3,
  kHeuristics = 4,
  kExecutionPlan = 5,
  kForwardOperation = 10,
  kBackwardDataOperation = 12,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
};
enum AttributeType : int {
  kOfHandle = 0,
  kOfDataType = 1,
  kOfBoolean = 2,
  kOfInt64 = 3,
  kOfFloat = 4,
  kOfPointer = 6,
  kOfConvolutionMode = 7,
  kOfHeuristicsMode = 8,
  kOfDescriptor = 15,
};
enum AttributeName : int {
  kConvolutionCompute = 100,
  kConvolutionModeOf = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPostPaddings = 104,
  kConvolutionPrePaddings = 105,
  kConvolutionSpatial = 106,
  kHeuristicsModeOf = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kPlanHandle = 400,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kForwardAlpha = 700,
  kForwardBeta = 701,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardAlpha = 706,
  kBackwardBeta = 707,
  kBackwardConvolution = 708,
  kBackwardW = 709,
  kBackwardDx = 710,
  kBackwardDy = 711,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
};
enum HeuristicsMode : int { kFallback = 2, kModeA = 3 };

// Each is declared as `using <name> = <its type>` and looked up by that name.
extern "C" {
using cudnnGetVersion = size_t();
using cudnnCreate = Status(Handle**);
using cudnnDestroy = Status(Handle*);
using cudnnSetStream = Status(Handle*, void* stream);
using cudnnCreateTensorDescriptor = Status(TensorDescriptor**);
using cudnnDestroyTensorDescriptor = Status(TensorDescriptor*);
using cudnnSetTensorNdDescriptor = Status(TensorDescriptor*, DataType, int rank, const int* lengths,
                                          const int* strides);
using cudnnCreateFilterDescriptor = Status(FilterDescriptor**);
using cudnnDestroyFilterDescriptor = Status(FilterDescriptor*);
using cudnnSetFilterNdDescriptor = Status(FilterDescriptor*, DataType, TensorFormat, int rank, const int* lengths);
using cudnnCreateConvolutionDescriptor = Status(ConvolutionDescriptor**);
using cudnnDestroyConvolutionDescriptor = Status(ConvolutionDescriptor*);
using cudnnSetConvolutionNdDescriptor = Status(ConvolutionDescriptor*, int spatial, const int* padding,
                                               const int* stride, const int* dilation, ConvolutionMode,
                                               DataType compute);
using cudnnSetConvolutionGroupCount = Status(ConvolutionDescriptor*, int groups);
using cudnnSetConvolutionMathType = Status(ConvolutionDescriptor*, MathType);
using cudnnGetConvolutionForwardAlgorithm_v7 = Status(Handle*, const TensorDescriptor* x, const FilterDescriptor* w,
                                                      const ConvolutionDescriptor*, const TensorDescriptor* y,
                                                      int requested, int* found, AlgorithmResult*);
using cudnnConvolutionForward = Status(Handle*, const void* alpha, const TensorDescriptor*, const void* x,
                                       const FilterDescriptor*, const void* w, const ConvolutionDescriptor*,
                                       int algorithm, void* workspace, size_t bytes, const void* beta,
                                       const TensorDescriptor*, void* y);
using cudnnGetConvolutionBackwardDataAlgorithm_v7 = Status(Handle*, const FilterDescriptor* w,
                                                           const TensorDescriptor* dy, const ConvolutionDescriptor*,
                                                           const TensorDescriptor* dx, int requested, int* found,
                                                           AlgorithmResult*);
using cudnnConvolutionBackwardData = Status(Handle*, const void* alpha, const FilterDescriptor*, const void* w,
                                            const TensorDescriptor*, const void* dy, const ConvolutionDescriptor*,
                                            int algorithm, void* workspace, size_t bytes, const void* beta,
                                            const TensorDescriptor*, void* dx);
using cudnnBackendCreateDescriptor = Status(DescriptorType, BackendDescriptor**);
using cudnnBackendDestroyDescriptor = Status(BackendDescriptor*);
using cudnnBackendFinalize = Status(BackendDescriptor*);
using cudnnBackendSetAttribute = Status(BackendDescriptor*, AttributeName, AttributeType, int64_t count,
                                        const void* elements);
using cudnnBackendGetAttribute = Status(const BackendDescriptor*, AttributeName, AttributeType, int64_t requested,
                                        int64_t* found, void* elements);
using cudnnBackendExecute = Status(Handle*, BackendDescriptor* plan, BackendDescriptor* pack);
}

}  // namespace gabbro::gpu::cudnn
