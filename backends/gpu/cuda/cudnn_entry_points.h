// The entry points of cuDNN 9 that we call, as its documentation of the legacy API has them: the library's headers need
// not be installed.
#pragma once

#include <cstddef>

namespace gabbro::gpu::cudnn {

struct Handle;
struct TensorDescriptor;
struct FilterDescriptor;
struct ConvolutionDescriptor;

enum Status : int { kSuccess = 0 };
enum DataType : int { kFloat = 0, kHalf = 2, kBFloat16 = 9 };
enum TensorFormat : int { kNchw = 0 };
enum ConvolutionMode : int { kCrossCorrelation = 1 };
// kTensorOp: matrix cores for halves. kFma: none of TF32, whose products of floats have 10 bits.
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

inline constexpr int kAlgorithms = 8;  // of forward convolutions

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
}

}  // namespace gabbro::gpu::cudnn
