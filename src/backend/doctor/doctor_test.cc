#include "src/backend/doctor/doctor.h"

#include <gmock/gmock.h>

#include <set>

#include "src/backend/discovery/test_tree.h"
#include "src/backend/doctor/checks.h"

namespace gabbro::doctor {
namespace {

using discovery::Environment;
using discovery::Machine;
using discovery::TestTree;
using testing::HasSubstr;

// Finding of one check on a machine without any plugin.
Finding find(const Machine& machine, const std::string& id, const std::vector<Plugin>& plugins = {},
             bool self_test = false) {
  Runtimes runtimes(machine.root);
  const Examination examination{machine, plugins, runtimes, self_test};
  for (const Check& check : check_table()) {
    if (check.id == id) return check.run(examination);
  }
  ADD_FAILURE() << "there is no check " << id;
  return {};
}

Finding find(const std::string& tree, const std::string& id, Environment::Values variables = {}) {
  return find(discovery::machine(tree, std::move(variables)), id);
}

Finding find(const TestTree& tree, const std::string& id, Environment::Values variables = {}) {
  return find(tree.machine(std::move(variables)), id);
}

void expect(const Finding& finding, CheckStatus status, const std::string& summary, const std::string& fix = {}) {
  EXPECT_STREQ(status_name(finding.status), status_name(status)) << finding.summary;
  EXPECT_THAT(finding.summary, HasSubstr(summary));
  EXPECT_THAT(finding.fix, HasSubstr(fix));
}

TEST(Doctor, EveryCheckAnswersOnEveryMachineInOneLine) {
  for (const char* tree : {"rdna2", "rdna3", "rdna4", "mi210", "mi300x_8", "apu", "igpu_and_dgpu", "no_permission",
                           "container", "no_driver", "nvidia", "no_gpu"}) {
    std::set<std::string> ids;
    for (const Check& check : check_table()) {
      SCOPED_TRACE(std::string(tree) + " " + check.id);
      EXPECT_TRUE(ids.insert(check.id).second);
      const Finding finding = find(tree, check.id);
      EXPECT_FALSE(finding.summary.empty());
      EXPECT_EQ((finding.summary + finding.fix).find('\n'), std::string::npos);
      const bool needs_fix = finding.status == CheckStatus::kError || finding.status == CheckStatus::kWarning;
      EXPECT_EQ(!finding.fix.empty(), needs_fix) << finding.summary;
    }
  }
}

TEST(Doctor, AHealthyMachineHasNoErrors) {
  for (const char* tree : {"rdna2", "rdna3", "rdna4", "mi210", "mi300x_8", "apu", "nvidia", "no_gpu"}) {
    for (const Check& check : check_table()) {
      if (std::string(check.id) == "backends") continue;  // the test has none
      const Finding finding = find(tree, check.id);
      const bool good = finding.status == CheckStatus::kOk || finding.status == CheckStatus::kSkipped;
      EXPECT_TRUE(good) << tree << " " << check.id << ": " << finding.summary;
    }
  }
}

TEST(Doctor, Drivers) {
  expect(find("no_driver", "amdgpu-driver"), CheckStatus::kError, "not loaded", "sudo modprobe amdgpu");
  expect(find("mi300x_8", "amdgpu-driver"), CheckStatus::kOk, "amdgpu 6.12.12 (AMD's package)");
  expect(find("rdna4", "kernel-version"), CheckStatus::kOk, "Linux 6.14.0-27-generic is new enough");
  TestTree old("rdna4");
  old.write("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
  expect(find(old, "kernel-version"), CheckStatus::kWarning, "older than 6.12", "install Linux 6.12");
  TestTree tree("rdna3");
  tree.remove("sys/class/kfd/kfd/topology/nodes/1");
  expect(find(tree, "compute-driver"), CheckStatus::kError, "does not offer", "dmesg");
  tree.write("sys/module/amdgpu/parameters/gpu_recovery", "0\n");
  expect(find(tree, "hang-recovery"), CheckStatus::kWarning, "gpu_recovery=0", "remove amdgpu.gpu_recovery=0");
  tree.write("sys/module/amdgpu/parameters/gpu_recovery", "-1").write("sys/class/devcoredump/devcd7/data", "");
  expect(find(tree, "hang-recovery"), CheckStatus::kWarning, "devcd7", "/sys/class/devcoredump/devcd7/data");
  TestTree nvidia("nvidia");
  nvidia.write("sys/bus/pci/devices/0000:01:00.0/uevent", "DRIVER=nouveau\n").remove("proc/driver");
  expect(find(nvidia, "nvidia-driver"), CheckStatus::kError, "nouveau", "install NVIDIA's driver");
}

TEST(Doctor, Access) {
  expect(find("no_permission", "permissions"), CheckStatus::kError, "/dev/kfd exists, but",
         "sudo usermod -aG render,video $USER");
  expect(find("container", "container"), CheckStatus::kError, "container of docker",
         "--device /dev/kfd --device /dev/dri --group-add 109");
  expect(find("rdna3", "permissions"), CheckStatus::kOk, "may open /dev/kfd, /dev/dri/renderD128");
  expect(find("no_driver", "permissions"), CheckStatus::kSkipped, "no driver");
}

TEST(Doctor, Selection) {
  expect(find("rdna3", "visible-devices", {{"HIP_VISIBLE_DEVICES", "3"}}), CheckStatus::kWarning, "'3' names none",
         "--device pci:");
  expect(find("rdna3", "gfx-override", {{"HSA_OVERRIDE_GFX_VERSION", "10.3.0"}}), CheckStatus::kWarning,
         "makes every card a gfx1030", "unset HSA_OVERRIDE_GFX_VERSION");
  expect(find("rdna3", "gfx-override", {{"HSA_OVERRIDE_GFX_VERSION", "11.0.0"}}), CheckStatus::kWarning, "unneeded");
  expect(find("rdna3", "gfx-override", {{"HSA_OVERRIDE_GFX_VERSION", "gfx1100"}}), CheckStatus::kWarning, "form");
  expect(find("igpu_and_dgpu", "integrated-and-discrete"), CheckStatus::kWarning, "numbers the integrated one first",
         "export ROCR_VISIBLE_DEVICES=GPU-1000000000000002");
  expect(find("rdna3", "backends"), CheckStatus::kError, "no backend is installed", "GABBRO_PLUGIN_PATH");
  TestTree old("rdna3");
  const std::string node = "sys/class/kfd/kfd/topology/nodes/1/properties";
  old.write(node, "simd_count 144\nsimd_per_cu 4\ngfx_target_version 80003\nlocation_id 768\n");
  expect(find(old, "architecture"), CheckStatus::kError, "gfx803 is older than gfx900", "--device cpu");
}

TEST(Doctor, Runtimes) {
  expect(find("no_driver", "hip-runtime"), CheckStatus::kError, "libamdhip64.so.7: cannot open", "amdrocm-runtime");
  expect(find("rdna3", "hip-runtime"), CheckStatus::kOk, "libamdhip64.so.7 7.2.53211 sees 1 GPU");
  expect(find("nvidia", "cuda-runtime"), CheckStatus::kOk, "libcuda.so.1 12.8 sees 1 GPU");
  TestTree tree("rdna3");
  const std::string facts = *tree.root().read("/facts");
  const std::string nodes = facts.substr(0, facts.find("runtime"));
  tree.write("facts", nodes + "runtime hip status=hung message=it gave no answer within 12 s\n");
  expect(find(tree, "hip-runtime"), CheckStatus::kError, "it gave no answer within 12 s", "older than the runtime");
  expect(find(tree, "runtime-kernel-pair"), CheckStatus::kError, "over amdgpu of Linux 6.8.0", "amdgpu-dkms");
  tree.write("facts", nodes + "runtime hip status=ok version=7.2.0 path=/x devices=\n");
  expect(find(tree, "hip-runtime"), CheckStatus::kWarning, "sees 0 GPUs, but not 0000:03:00.0");
  tree.write("sys/module/amdgpu/version", "6.7.0");
  expect(find(tree, "runtime-kernel-pair"), CheckStatus::kWarning, "older than 6.8", "amdgpu-dkms");
  tree.write("facts", nodes);
  expect(find(tree, "hip-runtime"), CheckStatus::kSkipped, "the recording does not say");
}

TEST(Doctor, Installation) {
  TestTree tree("rdna3");
  tree.write("opt/rocm/bin/rocminfo", "").write("opt/rocm/.info/version", "6.4.1-83\n").write("opt/rocm-6.4.1/x", "");
  expect(find(tree, "rocm-path", {{"PATH", "/usr/bin:/bin"}}), CheckStatus::kWarning, "/opt/rocm/bin is not on PATH",
         "export PATH=\"/opt/rocm/bin:$PATH\"");
  expect(find(tree, "rocm-path", {{"PATH", "/usr/bin:/opt/rocm/bin"}}), CheckStatus::kOk, "on PATH");
  expect(find(tree, "rocm-path", {{"ROCM_PATH", "/opt/gone"}}), CheckStatus::kWarning, "does not exist");
  expect(find(tree, "rocm-trees"), CheckStatus::kWarning, "is ROCm 6.4.1-83: two releases are mixed");
  tree.write("opt/rocm/.info/version", "7.2.0").write("opt/rocm-7.2.0/x", "");
  expect(find(tree, "rocm-trees"), CheckStatus::kWarning, "2 ROCm trees are installed");
  tree.write("etc/apt/sources.list.d/rocm.list", "deb https://repo.radeon.com/rocm/apt/6.2 noble main\n");
  expect(find(tree, "package-repositories"), CheckStatus::kOk, "ROCm 6.2");
  tree.write("etc/apt/sources.list.d/new.sources", "URIs: https://repo.radeon.com/rocm/apt/7.2\nSuites: noble\n");
  expect(find(tree, "package-repositories"), CheckStatus::kWarning, "6.2 and 7.2", "sources.list.d");
  tree.write("var/lib/dpkg/status", "Package: amdgpu-dkms\nStatus: install ok half-configured\n");
  expect(find(tree, "installer"), CheckStatus::kError, "half-configured", "dpkg --configure -a");
  tree.write("var/lib/dpkg/status", "Package: vim\nStatus: install ok half-configured\n");
  expect(find(tree, "installer"), CheckStatus::kOk, "no half-installed");
  tree.write("venv/lib/python3.12/site-packages/torch/version.py", "cuda = None\nhip = '6.2.41133'\n");
  expect(find(tree, "python-packages", {{"VIRTUAL_ENV", "/venv"}}), CheckStatus::kWarning, "ROCm 6.2.41133",
         "wheel for ROCm 7");
  expect(find(tree, "miopen-search", {{"MIOPEN_FIND_ENFORCE", "4"}}), CheckStatus::kWarning, "exhaustively",
         "unset MIOPEN_FIND_ENFORCE");
  expect(find(tree, "wsl"), CheckStatus::kSkipped, "not WSL");
  tree.write("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2");
  expect(find(tree, "wsl"), CheckStatus::kError, "/dev/dxg does not exist", "wsl --update");
  tree.write("dev/dxg", "");
  expect(find(tree, "wsl"), CheckStatus::kWarning, "librocdxg");
}

TEST(Doctor, Memory) {
  TestTree tree("apu");
  const std::string device = "sys/bus/pci/devices/0000:c4:00.0/";
  expect(find(tree, "apu-memory"), CheckStatus::kOk, "72.6 GiB now, at most 96.5 GiB");
  tree.write(device + "mem_info_gtt_total", std::to_string(62ULL << 30));
  // Three quarters of 124 GiB in pages of 4 KiB.
  expect(find(tree, "apu-memory"), CheckStatus::kWarning, "GTT limit is what bounds", "ttm.pages_limit=24379392 ");
  tree.write(device + "mem_info_vram_total", std::to_string(96ULL << 30));
  expect(find(tree, "apu-memory"), CheckStatus::kWarning, "the firmware reserves much", "to its minimum");
  TestTree old("apu");
  old.write("proc/sys/kernel/osrelease", "6.8.0");
  expect(find(old, "apu-memory"), CheckStatus::kWarning, "before Linux 6.10", "6.10");
  TestTree full("rdna3");
  full.write("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used", std::to_string(20ULL << 30));
  expect(find(full, "free-memory"), CheckStatus::kWarning, "only 4.0 GiB of 24.0 GiB", "/sys/class/kfd/kfd/proc");
}

TEST(Doctor, Bus) {
  TestTree tree("mi300x_8");
  const std::string device = "sys/bus/pci/devices/0000:15:00.0/";
  expect(find(tree, "iommu"), CheckStatus::kOk, "passes GPUs through");
  tree.write("proc/cmdline", "quiet").write(device + "iommu_group/type", "DMA-FQ").write("sys/class/iommu/ivhd0/x", "");
  expect(find(tree, "iommu"), CheckStatus::kWarning, "0000:15:00.0 (gfx942): the IOMMU translates", "iommu=pt");
  tree.write("sys/class/kfd/kfd/topology/nodes/5/io_links/0/properties", "flags 12\n");
  expect(find(tree, "pcie-atomics"), CheckStatus::kWarning, "0000:15:00.0", "slot");
  tree.write(device + "current_link_width", "4");
  expect(find(tree, "pcie-link"), CheckStatus::kWarning, "4 of 16 lanes", "most lanes");
  tree.write("sys/class/kfd/kfd/topology/nodes/5/mem_banks/0/properties", "heap_type 2\nsize_in_bytes 1\n");
  expect(find(tree, "large-bar"), CheckStatus::kWarning, "no large BAR", "Resizable BAR");
  tree.write(device + "gpu_busy_percent", "99");
  expect(find(tree, "idle-power"), CheckStatus::kWarning, "99 % busy, 17 W, though no process", "fuser");
  tree.write("sys/class/kfd/kfd/proc/4711/pasid", "1");
  expect(find(tree, "idle-power"), CheckStatus::kOk, "99 % busy");
}

TEST(Doctor, ApuPair) {
  expect(find("apu", "apu-pair"), CheckStatus::kOk,
         "0000:c4:00.0 (gfx1151) with HIP 7.2.53211 and Linux 6.18.4-generic");
  expect(find("rdna3", "apu-pair"), CheckStatus::kSkipped, "no APU");
  TestTree tree("apu");
  const std::string line = "add amdgpu.cwsr_enable=0 to GRUB_CMDLINE_LINUX in /etc/default/grub, then sudo update-grub";
  tree.write("proc/sys/kernel/osrelease", "6.14.0-27-generic\n");
  expect(find(tree, "apu-pair"), CheckStatus::kError, "Linux 6.18 is needed", line);
  tree.write("sys/module/amdgpu/version", "6.16.6\n");  // AMD's driver
  expect(find(tree, "apu-pair"), CheckStatus::kOk, "Linux 6.14.0");
  const std::string facts = *tree.root().read("/facts");
  tree.write("facts",
             facts.substr(0, facts.find("runtime")) + "runtime hip status=ok path=/x version=6.4.43484 devices=\n");
  expect(find(tree, "apu-pair"), CheckStatus::kError, "HIP 7.2 is needed", line);
  tree.remove("sys/module/amdgpu/version");
  expect(find(tree, "apu-pair"), CheckStatus::kError, "HIP 7.2 and Linux 6.18 are needed", line);
  tree.write("sys/module/amdgpu/parameters/cwsr_enable", "0\n");
  expect(find(tree, "apu-pair"), CheckStatus::kOk, "waves are not saved");
  tree.write("sys/bus/pci/devices/0000:c4:00.0/fw_version/mes_fw_version", "0x00000083\n");
  expect(find(tree, "apu-pair"), CheckStatus::kError, "MES firmware 0x83 hangs", "linux-firmware");
}

TEST(Doctor, TwoRuntimes) {
  expect(find("rdna3", "two-hip-runtimes"), CheckStatus::kOk, "no Python package has a HIP runtime");
  TestTree tree("rdna3");
  tree.write("venv/lib/python3.12/site-packages/torch/lib/libamdhip64.so", "");
  const Environment::Values active = {{"VIRTUAL_ENV", "/venv"}};
  const std::string wheel = "/venv/lib/python3.12/site-packages/torch/lib/libamdhip64.so";
  const Finding both = find(tree, "two-hip-runtimes", active);
  expect(both, CheckStatus::kWarning, "/opt/rocm/lib/libamdhip64.so.7 7.2.53211 and " + wheel,
         "GABBRO_HIP_PATH=" + wheel);
  const std::string facts = *tree.root().read("/facts");
  tree.write("facts", facts.substr(0, facts.find("runtime")) + "runtime hip status=missing message=none\n");
  expect(find(tree, "two-hip-runtimes", active), CheckStatus::kOk, "one HIP runtime: " + wheel);
}

TEST(Doctor, WslTakesItsFactsFromHip) {
  TestTree tree("no_gpu");
  tree.write("proc/sys/kernel/osrelease", "6.6.87.2-microsoft-standard-WSL2").write("dev/dxg", "");
  tree.write("usr/lib/wsl/lib/librocdxg.so", "");
  expect(find(tree, "wsl"), CheckStatus::kOk, "WSL with /dev/dxg and librocdxg, 64.0 GiB");
  tree.write("facts", "runtime hip status=ok path=/opt/rocm/lib/libamdhip64.so.7 version=7.2.1 devices=0000:03:00.0\n");
  expect(find(tree, "gpus"), CheckStatus::kOk, "WSL shows no card to Linux; HIP 7.2.1 sees 1 GPU");
  expect(find(tree, "hip-runtime"), CheckStatus::kOk, "sees 1 GPU");
  tree.write("facts", "runtime hip status=missing message=there is no libamdhip64\n");
  expect(find(tree, "hip-runtime"), CheckStatus::kError, "there is no libamdhip64", "ROCm for WSL");
  tree.write("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\n");
  expect(find(tree, "wsl"), CheckStatus::kWarning, "7.6 GiB of memory", ".wslconfig");
}

TEST(Doctor, CopiesFromMappedFiles) {
  const Finding good = ok("rocm:0: to the device 25.0 GB/s pinned");
  expect(with_mapped_copy(good, {.bytes_per_second = 5.2e9}), CheckStatus::kOk, "pinned; from a mapped file 5.2 GB/s");
  expect(with_mapped_copy(good, {.bytes_per_second = 6.4e6}), CheckStatus::kWarning, "from a mapped file 0.0 GB/s",
         "kernel");
  expect(with_mapped_copy(good, {.timed_out = true}), CheckStatus::kError, "no end within 20 s", "newer kernel");
  expect(with_mapped_copy(good, {.problem = "no room"}), CheckStatus::kOk, "from a mapped file: no room");
}

TEST(Doctor, IdlePowerAfterWork) {
  expect(judge_idle("card", {.processor_share = 0.01, .watts = 17, .busy_percent = 0}), CheckStatus::kOk,
         "uses 1 % of a core, the card is 0 % busy at 17 W");
  expect(judge_idle("card", {.processor_share = 0.99}), CheckStatus::kWarning, "99 % of a core", "GPU_MAX_HW_QUEUES=1");
  expect(judge_idle("card", {.watts = 90, .busy_percent = 100}), CheckStatus::kWarning, "100 % busy at 90 W");
}

// A backend whose device 1 fails the check "kernels", and which knows "bandwidth" of neither.
abi::Status facts(int32_t index, abi::DeviceFacts* facts) {
  *facts = {};
  std::snprintf(facts->id, sizeof(facts->id), "rocm:%d", index);
  facts->usable = index < 2;
  facts->wave_size = 32;
  return {};
}

abi::Status run_check(int32_t index, const char* id, abi::CheckResult* result) {
  abi::Status status;
  if (std::string(id) != "kernels") {
    status.code = abi::StatusCode::kUnsupported;
    return status;
  }
  result->status = index == 1 ? CheckStatus::kError : CheckStatus::kOk;
  std::snprintf(result->summary, sizeof(result->summary), "softmax is wrong");
  std::snprintf(result->fix, sizeof(result->fix), "report it");
  return status;
}

TEST(Doctor, AsksTheBackendsForWhatNeedsTheHardware) {
  const abi::Backend backend = {.name = "rocm",
                                .score = 90,
                                .device_count = [] { return int32_t{3}; },
                                .device_facts = facts,
                                .run_check = run_check};
  const abi::Backend silent = {
      .name = "rocm", .score = 90, .device_count = [] { return int32_t{1}; }, .device_facts = facts};
  const abi::Backend empty = {.name = "rocm", .score = 90, .device_count = [] { return int32_t{0}; }};
  const abi::Backend simulator = {.name = "sim", .score = -1};
  const Machine machine = discovery::machine("rdna3");
  const auto found = [&](const abi::Backend& asked, const char* id, bool self_test = true) {
    return find(machine, id, {Plugin{.name = asked.name, .backend = &asked}}, self_test);
  };
  expect(found(backend, "kernels"), CheckStatus::kError, "rocm:1: softmax is wrong", "report it");
  expect(found(backend, "kernels", false), CheckStatus::kSkipped, "gabbro doctor --self-test");
  expect(found(backend, "bandwidth"), CheckStatus::kSkipped, "no GPU backend offers this check");
  expect(found(silent, "kernels"), CheckStatus::kSkipped, "no GPU backend offers this check");
  expect(found(empty, "kernels"), CheckStatus::kSkipped, "no GPU is usable");
  expect(found(simulator, "kernels"), CheckStatus::kSkipped, "no GPU backend is installed");
  for (const char* id : {"code-objects", "peer-copies", "graphs", "host-copies", "allocator"}) {
    expect(find(machine, id), CheckStatus::kSkipped, "no GPU backend is installed");
  }
}

}  // namespace
}  // namespace gabbro::doctor
