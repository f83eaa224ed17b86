// hipBLASLt for the emulated devices: products on the host, in f32. EMULATED_GPU_FAIL=gemm:crash ends the process in
// the choice of an algorithm, as rocm-libraries#8242 reports; gemm:fault makes each product a fault of the device.
#include <hipblaslt/hipblaslt.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include "src/base/half.h"
#include "tests/emulated_hip/library_calls.h"

namespace {

struct Layout {
  hipDataType type;
  uint64_t rows, columns;  // the first axis is contiguous
  int64_t step;
  int32_t batches = 1;
  int64_t batch_step = 0;
};

struct Description {
  hipblasOperation_t transpose_a = HIPBLAS_OP_N, transpose_b = HIPBLAS_OP_N;
  hipblasLtEpilogue_t epilogue = HIPBLASLT_EPILOGUE_DEFAULT;
  hipDataType bias_type = HIP_R_32F;
  const void* bias = nullptr;
};

const Layout& layout_of(hipblasLtMatrixLayout_t handle) { return *reinterpret_cast<const Layout*>(handle); }

float read(const void* values, int64_t at, hipDataType type) {
  if (type == HIP_R_32F) return static_cast<const float*>(values)[at];
  const uint16_t bits = static_cast<const uint16_t*>(values)[at];
  return type == HIP_R_16F ? gabbro::half_bits_to_float(bits) : gabbro::bfloat_bits_to_float(bits);
}

void write(void* values, int64_t at, hipDataType type, float value) {
  if (type == HIP_R_32F) {
    static_cast<float*>(values)[at] = value;
  } else {
    static_cast<uint16_t*>(values)[at] =
        type == HIP_R_16F ? gabbro::float_to_half_bits(value) : gabbro::float_to_bfloat_bits(value);
  }
}

float activate(float x, hipblasLtEpilogue_t epilogue) {
  switch (epilogue) {
    case HIPBLASLT_EPILOGUE_RELU:
    case HIPBLASLT_EPILOGUE_RELU_BIAS:
      return x > 0 ? x : 0;
    case HIPBLASLT_EPILOGUE_GELU:
    case HIPBLASLT_EPILOGUE_GELU_BIAS:  // with tanh
      return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
    case HIPBLASLT_EPILOGUE_SWISH_EXT:
    case HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}

bool has_bias(hipblasLtEpilogue_t epilogue) {
  return epilogue == HIPBLASLT_EPILOGUE_BIAS || epilogue == HIPBLASLT_EPILOGUE_RELU_BIAS ||
         epilogue == HIPBLASLT_EPILOGUE_GELU_BIAS || epilogue == HIPBLASLT_EPILOGUE_SWISH_BIAS_EXT;
}

struct Product {
  Description how;
  Layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;

  // d [rows, columns] = activation(alpha · op(a) · op(b) + beta · c + bias)
  void run() const {
    const bool a_transposed = how.transpose_a != HIPBLAS_OP_N, b_transposed = how.transpose_b != HIPBLAS_OP_N;
    const auto depth = static_cast<int64_t>(a_transposed ? a.rows : a.columns);
    for (int64_t batch = 0; batch < d.batches; ++batch) {
      for (int64_t column = 0; column < static_cast<int64_t>(d.columns); ++column) {
        for (int64_t row = 0; row < static_cast<int64_t>(d.rows); ++row) {
          float sum = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const int64_t in_a = a_transposed ? row * a.step + k : k * a.step + row;
            const int64_t in_b = b_transposed ? k * b.step + column : column * b.step + k;
            sum +=
                read(a_data, batch * a.batch_step + in_a, a.type) * read(b_data, batch * b.batch_step + in_b, b.type);
          }
          float value = alpha * sum;
          if (beta != 0) value += beta * read(c_data, batch * c.batch_step + column * c.step + row, c.type);
          if (has_bias(how.epilogue)) value += read(how.bias, row, how.bias_type);
          write(d_data, batch * d.batch_step + column * d.step + row, d.type, activate(value, how.epilogue));
        }
      }
    }
  }
};

template <class T>
bool set(T& target, const void* value, size_t bytes) {
  if (bytes != sizeof target) return false;
  std::memcpy(&target, value, bytes);
  return true;
}

hipblasStatus_t status_of(bool works) { return works ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_INVALID_VALUE; }

}  // namespace

#pragma GCC visibility push(default)

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle) {
  *handle = new int(0);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtDestroy(const hipblasLtHandle_t handle) {
  delete static_cast<int*>(handle);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t, int* version) {
  *version = 100100;
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* handle, hipDataType type, uint64_t rows,
                                            uint64_t columns, int64_t step) {
  *handle = reinterpret_cast<hipblasLtMatrixLayout_t>(new Layout{type, rows, columns, step});
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatrixLayoutDestroy(const hipblasLtMatrixLayout_t handle) {
  delete reinterpret_cast<Layout*>(handle);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t handle,
                                                  hipblasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                  size_t bytes) {
  auto& layout = *reinterpret_cast<Layout*>(handle);
  if (attribute == HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return status_of(set(layout.batches, value, bytes));
  if (attribute == HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return status_of(set(layout.batch_step, value, bytes));
  return HIPBLAS_STATUS_NOT_SUPPORTED;
}

hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* handle, hipblasComputeType_t compute,
                                          hipDataType scale) {
  if (compute != HIPBLAS_COMPUTE_32F || scale != HIP_R_32F) return HIPBLAS_STATUS_NOT_SUPPORTED;
  *handle = reinterpret_cast<hipblasLtMatmulDesc_t>(new Description);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulDescDestroy(const hipblasLtMatmulDesc_t handle) {
  delete reinterpret_cast<Description*>(handle);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t handle, hipblasLtMatmulDescAttributes_t attribute,
                                                const void* value, size_t bytes) {
  auto& description = *reinterpret_cast<Description*>(handle);
  switch (attribute) {
    case HIPBLASLT_MATMUL_DESC_TRANSA:
      return status_of(set(description.transpose_a, value, bytes));
    case HIPBLASLT_MATMUL_DESC_TRANSB:
      return status_of(set(description.transpose_b, value, bytes));
    case HIPBLASLT_MATMUL_DESC_EPILOGUE:
      return status_of(set(description.epilogue, value, bytes));
    case HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return status_of(set(description.bias_type, value, bytes));
    case HIPBLASLT_MATMUL_DESC_BIAS_POINTER:
      return status_of(set(description.bias, value, bytes));
    default:
      return HIPBLAS_STATUS_NOT_SUPPORTED;
  }
}

hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<hipblasLtMatmulPreference_t>(new uint64_t(0));
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulPreferenceDestroy(const hipblasLtMatmulPreference_t handle) {
  delete reinterpret_cast<uint64_t*>(handle);
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t handle,
                                                      hipblasLtMatmulPreferenceAttributes_t attribute,
                                                      const void* value, size_t bytes) {
  if (attribute != HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return HIPBLAS_STATUS_NOT_SUPPORTED;
  return status_of(set(*reinterpret_cast<uint64_t*>(handle), value, bytes));
}

hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t, hipblasLtMatmulDesc_t, hipblasLtMatrixLayout_t,
                                                hipblasLtMatrixLayout_t, hipblasLtMatrixLayout_t,
                                                hipblasLtMatrixLayout_t, hipblasLtMatmulPreference_t, const int wanted,
                                                hipblasLtMatmulHeuristicResult_t results[], int* found) {
  if (emulated_hip::has_library_fault("gemm:crash")) {
    std::fputs("emulated hipBLASLt: EMULATED_GPU_FAIL=gemm:crash\n", stderr);
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (wanted < 1) return HIPBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  *found = 1;
  return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t, hipblasLtMatmulDesc_t description, const void* alpha, const void* a,
                                hipblasLtMatrixLayout_t a_layout, const void* b, hipblasLtMatrixLayout_t b_layout,
                                const void* beta, const void* c, hipblasLtMatrixLayout_t c_layout, void* d,
                                hipblasLtMatrixLayout_t d_layout, const hipblasLtMatmulAlgo_t*, void*, size_t,
                                hipStream_t stream) {
  const Product product = {.how = *reinterpret_cast<Description*>(description),
                           .a = layout_of(a_layout),
                           .b = layout_of(b_layout),
                           .c = layout_of(c_layout),
                           .d = layout_of(d_layout),
                           .a_data = a,
                           .b_data = b,
                           .c_data = c,
                           .d_data = d,
                           .alpha = *static_cast<const float*>(alpha),
                           .beta = *static_cast<const float*>(beta)};
  const bool faults = emulated_hip::has_library_fault("gemm:fault");
  const hipError_t result = emulated_hip::enqueue_library_work(stream, [product, faults] {
    if (faults) return emulated_hip::fail_library_work("emulated hipBLASLt: EMULATED_GPU_FAIL=gemm:fault");
    product.run();
  });
  return result == hipSuccess ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_EXECUTION_FAILED;
}

#pragma GCC visibility pop
