// The entry points of MIOpen 2 and 3 that we call, as its documentation has them: the library's headers need not be
// installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gabbro::gpu::miopen {

struct Handle;
struct TensorDescriptor;
struct ConvolutionDescriptor;

enum Status : int { kSuccess = 0 };
enum DataType : int { kHalf = 0, kFloat = 1, kBFloat16 = 5 };
enum ConvolutionMode : int { kConvolution = 0 };  // cross-correlation, with groups or without

struct Solution {
  float milliseconds;
  size_t workspace_bytes;
  uint64_t id;
  int algorithm;
};

struct SearchResult {
  int algorithm;
  float milliseconds;
  size_t workspace_bytes;
};

// Each is declared as `using <name> = <its type>` and looked up by that name.
extern "C" {
using miopenGetVersion = Status(size_t* major, size_t* minor, size_t* patch);
using miopenCreate = Status(Handle**);
using miopenDestroy = Status(Handle*);
using miopenSetStream = Status(Handle*, void* stream);
using miopenCreateTensorDescriptor = Status(TensorDescriptor**);
using miopenDestroyTensorDescriptor = Status(TensorDescriptor*);
using miopenSetTensorDescriptor = Status(TensorDescriptor*, DataType, int rank, const int* lengths, const int* strides);
using miopenCreateConvolutionDescriptor = Status(ConvolutionDescriptor**);
using miopenDestroyConvolutionDescriptor = Status(ConvolutionDescriptor*);
using miopenInitConvolutionNdDescriptor = Status(ConvolutionDescriptor*, int spatial, const int* padding,
                                                 const int* stride, const int* dilation, ConvolutionMode);
using miopenSetConvolutionGroupCount = Status(ConvolutionDescriptor*, int groups);
using miopenConvolutionForwardGetSolution = Status(Handle*, const TensorDescriptor* w, const TensorDescriptor* x,
                                                   const ConvolutionDescriptor*, const TensorDescriptor* y, size_t most,
                                                   size_t* found, Solution*);
using miopenConvolutionForwardCompileSolution = Status(Handle*, const TensorDescriptor* w, const TensorDescriptor* x,
                                                       const ConvolutionDescriptor*, const TensorDescriptor* y,
                                                       uint64_t id);
using miopenConvolutionForwardImmediate = Status(Handle*, const TensorDescriptor*, const void* w,
                                                 const TensorDescriptor*, const void* x, const ConvolutionDescriptor*,
                                                 const TensorDescriptor*, void* y, void* workspace, size_t bytes,
                                                 uint64_t id);
using miopenConvolutionForwardGetWorkSpaceSize = Status(Handle*, const TensorDescriptor* w, const TensorDescriptor* x,
                                                        const ConvolutionDescriptor*, const TensorDescriptor* y,
                                                        size_t* bytes);
using miopenFindConvolutionForwardAlgorithm = Status(Handle*, const TensorDescriptor*, const void* x,
                                                     const TensorDescriptor*, const void* w,
                                                     const ConvolutionDescriptor*, const TensorDescriptor*, void* y,
                                                     int requested, int* found, SearchResult*, void* workspace,
                                                     size_t bytes, bool exhaustive);
}

}  // namespace gabbro::gpu::miopen
