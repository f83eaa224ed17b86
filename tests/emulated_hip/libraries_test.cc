#include <hip/hiprtc.h>
#include <hipblaslt/hipblaslt.h>

#include <csignal>
#include <string>
#include <vector>

#include "tests/emulated_hip/device_calls.h"

namespace emulated_hip {
namespace {

struct Compiled {
  hiprtcResult result;
  std::string log;
  std::vector<char> code;
};

Compiled compile(const char* name, const char* target) {
  hiprtcProgram program = nullptr;
  EXPECT_EQ(hiprtcCreateProgram(&program, "// text", name, 0, nullptr, nullptr), HIPRTC_SUCCESS);
  const std::string offload = std::string("--offload-arch=") + target;
  const char* options[] = {"-O3", offload.c_str()};
  Compiled compiled = {.result = hiprtcCompileProgram(program, 2, options), .log = {}, .code = {}};
  size_t bytes = 0;
  EXPECT_EQ(hiprtcGetProgramLogSize(program, &bytes), HIPRTC_SUCCESS);
  compiled.log.resize(bytes);
  EXPECT_EQ(hiprtcGetProgramLog(program, compiled.log.data()), HIPRTC_SUCCESS);
  EXPECT_EQ(hiprtcGetCodeSize(program, &bytes), HIPRTC_SUCCESS);
  compiled.code.resize(bytes);
  if (bytes > 0) EXPECT_EQ(hiprtcGetCode(program, compiled.code.data()), HIPRTC_SUCCESS);
  EXPECT_EQ(hiprtcDestroyProgram(&program), HIPRTC_SUCCESS);
  return compiled;
}

TEST(Compiler, ReturnsImagesOfSourcesWithHostCode) {
  expect_passes(card("gfx942"), [] {
    const Compiled compiled = compile("tests/emulated_hip/test_kernels.cc", "gfx942:sramecc+:xnack-");
    EXPECT_EQ(compiled.result, HIPRTC_SUCCESS);
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    succeed(hipModuleLoadData(&module, compiled.code.data()));
    succeed(hipModuleGetFunction(&function, module, "test_add"));
  });
}

TEST(Compiler, RefusesOtherSourcesAndTargets) {
  expect_passes(card("gfx942"), [] {
    const Compiled fused = compile("elementwise_454707c164df5c8c", "gfx942");
    EXPECT_EQ(fused.result, HIPRTC_ERROR_COMPILATION);
    EXPECT_NE(fused.log.find("error: elementwise_454707c164df5c8c has no host code"), std::string::npos);
    EXPECT_EQ(compile("tests/emulated_hip/test_kernels.cc", "gfx1").result, HIPRTC_ERROR_COMPILATION);
  });
}

void expect_works(hipblasStatus_t status) { EXPECT_EQ(status, HIPBLAS_STATUS_SUCCESS); }

hipblasLtMatrixLayout_t layout(uint64_t rows, uint64_t columns) {
  hipblasLtMatrixLayout_t made = nullptr;
  expect_works(hipblasLtMatrixLayoutCreate(&made, HIP_R_32F, rows, columns, static_cast<int64_t>(rows)));
  return made;
}

// d [2, 1] = relu(2 · aᵀ · b + bias), with a [3, 2] and b [3, 1].
hipError_t multiply(std::vector<float>& result) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6, 1, 1, 2, 0.5f, -100};  // a, b, bias
  auto* const data = reinterpret_cast<float*>(allocate(13 * sizeof(float)));
  succeed(hipMemcpy(data, numbers.data(), numbers.size() * sizeof(float), hipMemcpyHostToDevice));
  hipblasLtHandle_t handle = nullptr;
  hipblasLtMatmulDesc_t how = nullptr;
  hipblasLtMatmulPreference_t preference = nullptr;
  expect_works(hipblasLtCreate(&handle));
  expect_works(hipblasLtMatmulDescCreate(&how, HIPBLAS_COMPUTE_32F, HIP_R_32F));
  const auto set = [&](hipblasLtMatmulDescAttributes_t attribute, const auto& value) {
    expect_works(hipblasLtMatmulDescSetAttribute(how, attribute, &value, sizeof value));
  };
  set(HIPBLASLT_MATMUL_DESC_TRANSA, HIPBLAS_OP_T);
  set(HIPBLASLT_MATMUL_DESC_EPILOGUE, HIPBLASLT_EPILOGUE_RELU_BIAS);
  set(HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, HIP_R_32F);
  set(HIPBLASLT_MATMUL_DESC_BIAS_POINTER, data + 9);
  expect_works(hipblasLtMatmulPreferenceCreate(&preference));
  const auto a = layout(3, 2), b = layout(3, 1), d = layout(2, 1);
  hipblasLtMatmulHeuristicResult_t found{};
  int count = 0;
  expect_works(hipblasLtMatmulAlgoGetHeuristic(handle, how, a, b, d, d, preference, 1, &found, &count));
  EXPECT_EQ(count, 1);
  const float alpha = 2, beta = 0;
  expect_works(hipblasLtMatmul(handle, how, &alpha, data, a, data + 6, b, &beta, data + 11, d, data + 11, d,
                               &found.algo, nullptr, 0, nullptr));
  result.resize(2);
  return hipMemcpy(result.data(), data + 11, 2 * sizeof(float), hipMemcpyDeviceToHost);
}

TEST(Blas, MultipliesInTheLibrarysOrder) {
  expect_passes(card("gfx942"), [] {
    std::vector<float> result;
    succeed(multiply(result));
    EXPECT_EQ(result, (std::vector<float>{2 * (1 + 2 + 6) + 0.5f, 0}));
  });
}

TEST(Blas, MayCrashOrFault) {
  const auto run = [] {
    std::vector<float> result;
    EXPECT_EQ(multiply(result), hipErrorIllegalAddress);
  };
  EXPECT_EQ(run_in_process(with(card("gfx1201"), "EMULATED_GPU_FAIL", "gemm:crash"), run).signal, SIGSEGV);
  expect_passes(with(card("gfx1201"), "EMULATED_GPU_FAIL", "gemm:fault"), run);
}

}  // namespace
}  // namespace emulated_hip
