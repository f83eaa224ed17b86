// Finding plugins and devices, and what happens when either is broken.
#include "src/backend/registry.h"
#include "src/backend/discovery/test_tree.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/backend/plugin.h"
#include "src/base/error.h"
#include "src/ops/ops.h"
#include "src/plan/eval.h"

namespace gabbro {
namespace {

using testing::HasSubstr;

// Sets an environment variable for as long as it lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

std::string plugins(const char* folder) { return std::string(GABBRO_TEST_PLUGINS "/") + folder; }

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kFailed, "");
}

// The one thing that this folder's only plugin is listed as.
abi::DeviceFacts only_listing(const std::string& folder) {
  const Environment path("GABBRO_PLUGIN_PATH", folder);
  const std::vector<abi::DeviceFacts> facts = list_devices();
  EXPECT_EQ(facts.size(), 1U);
  EXPECT_FALSE(facts.at(0).usable);
  return facts.at(0);
}

TEST(Registry, AFolderWithoutPluginsIsSaid) {
  const Environment path("GABBRO_PLUGIN_PATH", "/nonexistent/folder");
  EXPECT_TRUE(list_devices().empty());
  const Error error = error_of([] { open_device("auto"); });
  EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
  EXPECT_STREQ(error.what(), "GABBRO_PLUGIN_PATH: /nonexistent/folder: No such file or directory");
  EXPECT_THAT(error.hint(), HasSubstr("the folder of the backend plugins"));
  EXPECT_NE(open_device("null"), nullptr);
}

TEST(Registry, LibrariesThatAreNoPluginsAreListedWithTheReason) {
  EXPECT_THAT(only_listing(plugins("no_entry")).reason, HasSubstr("has no function gabbro_backend"));
  EXPECT_THAT(only_listing(plugins("no_backend")).reason, HasSubstr("gives no backend"));
  const abi::DeviceFacts other = only_listing(plugins("other_version"));
  EXPECT_STREQ(other.id, "test");
  EXPECT_STREQ(other.name, "test backend");
  EXPECT_THAT(other.reason, HasSubstr(fmt::format("version {} of the plugin contract, this program for version {}",
                                                  abi::kVersion + 6, abi::kVersion)));
  const std::string folder = testing::TempDir() + "gabbro_broken_plugin";
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/libgabbro_broken.so") << "not a library";
  EXPECT_STREQ(only_listing(folder).id, "broken");
  EXPECT_THAT(only_listing(folder).reason, HasSubstr("libgabbro_broken.so"));
  const Environment path("GABBRO_PLUGIN_PATH", folder);
  const Error error = error_of([] { open_device("broken"); });
  EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
  EXPECT_THAT(error.what(), HasSubstr("device broken is not usable: "));
  EXPECT_EQ(error_of([] { open_device("auto"); }).code(), ErrorCode::kNoDevice);
  std::filesystem::remove_all(folder);
}

TEST(Registry, PluginsOfAllFoldersTheFirstOfEachName) {
  const std::filesystem::path root = testing::TempDir() + "gabbro_plugin_folders_" + std::to_string(::getpid());
  const auto put = [&](const char* file) {
    std::filesystem::create_directories((root / file).parent_path());
    std::ofstream(root / file) << file;
  };
  for (const char* file : {"first/libgabbro_cpu.so", "second/libgabbro_cpu.so", "second/libgabbro_rocm.so",
                           "second/libgabbro.so", "third/libgabbro_cuda.so", "third/libgabbro_cpu.so"}) {
    put(file);
  }
  std::filesystem::create_directory_symlink(root / "first", root / "link");  // the same file is not another plugin
  const auto files = plugin_files({root / "absent", root / "first", root / "link", root / "second", root / "third"});
  std::map<std::string, std::vector<std::string>> found;
  const auto relative = [&](const std::filesystem::path& path) { return path.lexically_relative(root).string(); };
  for (const PluginFile& file : files) {
    for (const auto& skipped : file.skipped) found[relative(file.path)].push_back(relative(skipped));
    found.try_emplace(relative(file.path));
  }
  const std::map<std::string, std::vector<std::string>> expected = {
      {"first/libgabbro_cpu.so", {"second/libgabbro_cpu.so", "third/libgabbro_cpu.so"}},
      {"second/libgabbro_rocm.so", {}},
      {"third/libgabbro_cuda.so", {}}};
  EXPECT_EQ(found, expected);
  std::filesystem::remove_all(root);
}

TEST(Registry, NamesOfDevices) {
  const Environment path("GABBRO_PLUGIN_PATH", plugins("good"));
  EXPECT_EQ(list_devices().size(), 5U);
  EXPECT_STREQ(open_device("auto")->facts().id, "rocm:1");  // the first that can be used
  EXPECT_STREQ(open_device("rocm:2")->facts().id, "rocm:2");
  EXPECT_STREQ(open_device("hip:2")->facts().id, "rocm:2");
  EXPECT_STREQ(open_device("gfx1102")->facts().id, "rocm:2");
  const Error unusable = error_of([] { open_device("hip:0"); });
  EXPECT_EQ(unusable.code(), ErrorCode::kNoDevice);
  EXPECT_STREQ(unusable.what(), "device rocm:0 is not usable: the driver sleeps");
  EXPECT_STREQ(error_of([] { open_device("rocm:4"); }).what(), "device rocm:4 is not usable: as the test asked");
  const Error unknown = error_of([] { open_device("hip:9"); });
  EXPECT_STREQ(unknown.what(), "there is no device 'hip:9'");
  EXPECT_THAT(unknown.hint(), HasSubstr("rocm:0, "));
  EXPECT_STREQ(error_of([] { open_device("rocm:3"); }).what(), "opening device rocm:3: as the test asked");
}

TEST(Registry, TheEnvironmentReplacesAutoAlone) {
  const Environment path("GABBRO_PLUGIN_PATH", plugins("good"));
  const Environment device("GABBRO_DEVICE", "rocm:2");
  EXPECT_STREQ(open_device("auto")->facts().id, "rocm:2");
  EXPECT_STREQ(open_device("")->facts().id, "rocm:2");
  EXPECT_STREQ(open_device("rocm:1")->facts().id, "rocm:1");
  const Environment absent("GABBRO_DEVICE", "rocm:7");
  EXPECT_STREQ(error_of([] { open_device("auto"); }).what(), "there is no device 'rocm:7'");
}

// Error of open_device on a recorded machine.
Error error_on(const std::string& machine, const std::string& device, const std::string& folder) {
  const Environment root("GABBRO_SYSFS_ROOT", discovery::RecordedMachines::folder(machine));
  const Environment path("GABBRO_PLUGIN_PATH", folder);
  return error_of([&] { open_device(device); });
}

TEST(Registry, AMissingGpuIsExplainedByTheFirstBrokenLink) {
  const std::string none = plugins("no_entry");  // no plugin of a GPU
  const auto expect = [](const Error& error, const char* message, const char* hint) {
    EXPECT_EQ(error.code(), ErrorCode::kNoDevice);
    EXPECT_STREQ(error.what(), message);
    EXPECT_THAT(error.hint(), HasSubstr(hint));
  };
  for (const char* name : {"rocm", "hip", "rocm:0", "hip:1"}) {
    expect(error_on("no_permission", name, none),
           "no usable ROCm device: /dev/kfd exists, but this user may not open it",
           "sudo usermod -aG render,video $USER, then log in again");
  }
  expect(error_on("no_driver", "rocm", none), "no usable ROCm device: the amdgpu kernel driver is not loaded",
         "sudo modprobe amdgpu");
  expect(error_on("rdna3", "rocm", none), "no usable ROCm device: no ROCm backend is installed (libgabbro_rocm.so)",
         "GABBRO_PLUGIN_PATH");
  expect(error_on("nvidia", "rocm", none), "no usable ROCm device: this machine has no AMD GPU", "gabbro devices");
  expect(error_on("nvidia", "cuda:0", none), "no usable CUDA device: no CUDA backend is installed (libgabbro_cuda.so)",
         "libgabbro_cuda.so");
  expect(error_on("no_gpu", "gpu", none), "no usable GPU device: this machine has no AMD or NVIDIA GPU",
         "--device auto");
  expect(error_on("rdna3", "gpu", none), "no usable GPU device: no ROCm backend is installed (libgabbro_rocm.so)", "");
}

TEST(Registry, ACardIsNamedByAddressTargetOrUuid) {
  const std::string none = plugins("no_entry");  // no plugin of a GPU
  for (const char* name : {"pci:0000:03:00.0", "gfx1100", "GPU-1000000000000001"}) {
    EXPECT_EQ(error_on("no_permission", name, none).what(),
              fmt::format("device {} is not usable: /dev/kfd exists, but this user may not open it", name));
  }
  EXPECT_STREQ(error_on("no_permission", "pci:03:00.0", none).what(),
               "device pci:0000:03:00.0 is not usable: /dev/kfd exists, but this user may not open it");
  EXPECT_THAT(error_on("rdna3", "gfx1201", plugins("good")).what(), HasSubstr("there is no device 'gfx1201'"));
  const Error wrong = error_on("rdna3", "pci:3", none);
  EXPECT_EQ(wrong.code(), ErrorCode::kBadInput);
  EXPECT_THAT(wrong.what(), HasSubstr("'pci:3' is not of the form pci:0000:03:00.0"));
}

TEST(Registry, ABackendWithoutDevicesIsExplainedByTheRuntime) {
  EXPECT_THAT(error_on("no_driver", "rocm", plugins("no_device")).what(), HasSubstr("driver is not loaded"));
  EXPECT_STREQ(error_on("rdna3", "rocm", plugins("no_device")).what(),
               "no usable ROCm device: the rocm backend does not list it");
  const Environment hidden("HIP_VISIBLE_DEVICES", "-1");
  EXPECT_STREQ(error_on("no_permission", "rocm", plugins("no_device")).what(),
               "no usable ROCm device: /dev/kfd exists, but this user may not open it");
}

TEST(Registry, GpuIsTheBestGpuOfAnyBackend) {
  const Environment path("GABBRO_PLUGIN_PATH", plugins("good"));
  EXPECT_STREQ(open_device("gpu")->facts().id, "rocm:1");
}

TEST(Registry, TheCpuIsThereByDefault) {
  const std::vector<abi::DeviceFacts> facts = list_devices();
  ASSERT_FALSE(facts.empty());
  EXPECT_STREQ(open_device("cpu")->facts().id, "cpu");
}

TEST(Device, StatusCodesBecomeErrors) {
  EXPECT_NO_THROW(check({}, "doing"));
  const auto error = [](abi::StatusCode code) {
    return error_of([=] {
      abi::Status status;
      status.code = code;
      std::snprintf(status.message, sizeof(status.message), "why");
      check(status, "doing");
    });
  };
  EXPECT_EQ(error(abi::StatusCode::kCanceled).code(), ErrorCode::kInterrupted);
  EXPECT_EQ(error(abi::StatusCode::kOutOfMemory).code(), ErrorCode::kNoDevice);
  EXPECT_STREQ(error(abi::StatusCode::kOutOfMemory).what(), "doing: out of memory: why");
  EXPECT_EQ(error(abi::StatusCode::kLost).code(), ErrorCode::kFailed);
  EXPECT_STREQ(error(abi::StatusCode::kLost).what(), "doing: the device was lost: why");
  EXPECT_STREQ(error(abi::StatusCode::kFailed).what(), "doing: why");
  EXPECT_STREQ(error(abi::StatusCode::kUnsupported).what(), "doing: why");
}

// Weights that a device reads in place stay in the file's pages, which live as long as the tensor does.
TEST(Device, AMatrixInHostMemoryIsNotCopied) {
  const auto device = open_device("null");
  auto values = std::make_shared<std::vector<float>>(6);
  const std::weak_ptr<std::vector<float>> watched = values;
  {
    const Tensor matrix = device->upload_matrix(DType::f32, 2, 3, {values, values->data()});
    EXPECT_EQ(matrix.state().storage.get(), values->data());
    values.reset();
    EXPECT_FALSE(watched.expired());
  }
  EXPECT_TRUE(watched.expired());
}

TEST(Device, WhatItDoesNotHaveIsSaid) {
  const auto device = open_device("null");
  for (const abi::MemoryKind kind : {abi::MemoryKind::kDevice, abi::MemoryKind::kPinned}) {
    EXPECT_STREQ(error_of([&] { device->memory(kind); }).what(), "device null does not count its memory");
    EXPECT_STREQ(error_of([&] { device->reset_memory_facts(kind); }).what(), "device null does not count its memory");
    EXPECT_THAT(error_of([&] { device->reserve(kind, 1000); }).what(), HasSubstr("device null keeps no memory"));
    EXPECT_EQ(device->trim(kind), 0U) << "there is nothing to release";
  }
  EXPECT_FALSE(device->tuning().has_value());
  for (const Error& error : {error_of([&] { device->set_tuning({}); }), error_of([&] { device->forget_tuning(); })}) {
    EXPECT_STREQ(error.what(), "device null has one way to compute each shape: there is nothing to tune");
    EXPECT_EQ(error.code(), ErrorCode::kFailed);
  }
}

TEST(Device, WhatFailsIsNamed) {
  const Environment path("GABBRO_PLUGIN_PATH", plugins("good"));
  const auto device = open_device("rocm:1");  // whatever fails does so with kOutOfMemory
  const float value = 1;
  EXPECT_STREQ(error_of([&] { device->allocate(2000); }).what(),
               "allocating 2000 bytes on rocm:1: out of memory: as the test asked");
  EXPECT_STREQ(error_of([&] { device->upload(DType::f32, Shape{1}, &value); }).what(),
               "copying to rocm:1: out of memory: as the test asked");
  EXPECT_STREQ(error_of([&] { device->upload_matrix(DType::f32, 1, 1, std::make_shared<float>(1)); }).what(),
               "packing weights on rocm:1: out of memory: as the test asked");
  const Tensor x = device->upload(DType::f32, Shape{1}, nullptr);
  const Tensor y = exp(x);
  EXPECT_STREQ(error_of([&] { eval(std::span(&y, 1)); }).what(), "running on rocm:1: out of memory: as the test asked");
  EXPECT_FALSE(y.has_value());
}

TEST(Device, AnOpWithoutKernelOrCompositionIsNamedWithItsShapes) {
  const Environment path("GABBRO_PLUGIN_PATH", plugins("good"));
  const Tensor x = open_device("rocm:2")->upload(DType::f32, Shape{2, 5}, nullptr);
  const auto message = [](const Tensor& y) { return std::string(error_of([&] { eval(std::span(&y, 1)); }).what()); };
  EXPECT_EQ(message(neg(x)), "[neg] device rocm:2 has no kernel for it on f32(2, 5)");
  EXPECT_EQ(message(silu(x)), "[sigmoid] device rocm:2 has no kernel for it on f32(2, 5)");
  EXPECT_EQ(message(reshape(permute(x, {1, 0}), Shape{10})), "[copy] device rocm:2 has no kernel for it");
}

}  // namespace
}  // namespace gabbro
