#include "src/backend/discovery/usability.h"

#include <gmock/gmock.h>

#include "src/backend/discovery/test_tree.h"

namespace gabbro::discovery {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Verdict first(const Machine& found) { return judge_kernel(found, found.cards.at(0)); }

TEST(Usability, WholeChains) {
  for (const char* name : {"rdna2", "rdna3", "rdna4", "mi210", "mi300x_8", "apu", "igpu_and_dgpu", "nvidia"}) {
    const Machine found = machine(name);
    for (const Card& card : found.cards) EXPECT_TRUE(judge_kernel(found, card).holds()) << name;
  }
}

TEST(Usability, WithoutDriver) {
  TestTree tree("no_driver");
  EXPECT_EQ(first(tree.machine()).broken, ChainLink::kDriver);
  EXPECT_EQ(first(tree.machine()).fix, "sudo modprobe amdgpu");
  tree.write("etc/modprobe.d/gpu.conf", "# none\nblacklist  amdgpu\n");
  EXPECT_THAT(first(tree.machine()).reason, HasSubstr("/etc/modprobe.d/gpu.conf forbids it"));
  tree.write("proc/cmdline", "quiet modprobe.blacklist=nouveau,amdgpu");
  EXPECT_THAT(first(tree.machine()).reason, HasSubstr("the kernel command line forbids it"));
  tree.write("sys/module/amdgpu/version", "6.12.12");
  EXPECT_THAT(first(tree.machine()).reason, HasSubstr("loaded, but it does not drive this card"));
  const std::string uevent = "sys/bus/pci/devices/0000:03:00.0/uevent";
  tree.write(uevent, "DRIVER=vfio-pci\nPCI_SLOT_NAME=0000:03:00.0\n");
  EXPECT_THAT(first(tree.machine()).fix,
              HasSubstr("echo 0000:03:00.0 | sudo tee /sys/bus/pci/drivers/vfio-pci/unbind"));
}

TEST(Usability, WithoutPermission) {
  TestTree tree("no_permission");
  const Verdict verdict = first(tree.machine());
  EXPECT_EQ(verdict.broken, ChainLink::kPermission);
  EXPECT_EQ(verdict.reason, "/dev/kfd exists, but this user may not open it");
  EXPECT_EQ(verdict.fix, "sudo usermod -aG render,video $USER, then log in again");
  tree.write("etc/group", "render:x:109:bob,ada\n");
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("log out and in again: ada is in the group render"));
  tree.write("etc/group", "gpu:x:109:\n");
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("usermod -aG gpu "));
  tree.write("facts", "node /dev/kfd uid=0 gid=0 mode=0600 open=EACCES\n").write("etc/group", "root:x:0:\n");
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("/etc/udev/rules.d"));
}

TEST(Usability, InContainers) {
  TestTree tree("container");
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("docker run --device /dev/kfd --device /dev/dri --group-add 109 "));
  tree.write("facts", "node /dev/dri/renderD128 uid=0 gid=109 mode=0660 open=ok\n");
  EXPECT_EQ(first(tree.machine()).broken, ChainLink::kDeviceNode);
  EXPECT_EQ(first(tree.machine()).reason, "/dev/kfd is not in this container");
  tree.write("facts", "node /dev/kfd uid=0 gid=109 mode=0666 open=EPERM\n");
  EXPECT_THAT(first(tree.machine()).reason, HasSubstr("the device rules of this container refuse it"));
  tree.write("facts", "node /dev/kfd uid=0 gid=109 mode=0666 open=EACCES\n").write("sys/fs/selinux/enforce", "1");
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("setsebool -P container_use_devices=true"));
  tree.remove("sys/fs/selinux").write("run/.containerenv", "").write("proc/self/uid_map", "0 1000 1\n1 100000 65536");
  EXPECT_THAT(first(tree.machine()).fix, AllOf(HasSubstr("podman run "), HasSubstr("--group-add keep-groups")));
  tree.write("proc/self/cgroup", "0::/kubepods/pod1");
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("supplementalGroups: [109]"));
}

TEST(Usability, ACardThatTheComputeDriverDoesNotOffer) {
  TestTree tree("rdna3");
  tree.remove("sys/class/kfd/kfd/topology/nodes/1");
  EXPECT_EQ(first(tree.machine()).broken, ChainLink::kComputeDriver);
  EXPECT_THAT(first(tree.machine()).fix, HasSubstr("dmesg"));
}

TEST(Usability, NodesOfThisMachineAreTried) {
  TestTree tree("rdna3");
  tree.remove("facts").write("dev/kfd", "").write("dev/dri/renderD128", "");
  EXPECT_TRUE(first(tree.machine()).holds());
  tree.remove("dev/kfd");
  EXPECT_EQ(first(tree.machine()).broken, ChainLink::kDeviceNode);
}

Verdict with_runtime(const Machine& found, const RuntimeReport& report) {
  return judge_runtime(found, found.cards.at(0), report);
}

TEST(Usability, Runtimes) {
  const Machine found = machine("rdna3");
  EXPECT_TRUE(with_runtime(found, probe_runtime(found.root, RuntimeKind::kHip)).holds());
  EXPECT_TRUE(with_runtime(found, {}).holds());  // not asked: nothing against it
  const Verdict missing = with_runtime(found, {.state = RuntimeState::kMissing});
  EXPECT_EQ(missing.broken, ChainLink::kRuntime);
  EXPECT_THAT(missing.reason, HasSubstr("libamdhip64"));
  const Verdict hung = with_runtime(found, {.state = RuntimeState::kHung, .message = "it gave no answer"});
  EXPECT_EQ(hung.reason, "it gave no answer");
  EXPECT_THAT(hung.fix, HasSubstr("older than the runtime"));
  EXPECT_THAT(with_runtime(found, {.state = RuntimeState::kCrashed, .message = "signal 6"}).reason,
              HasSubstr("signal 6"));
  EXPECT_EQ(with_runtime(found, {.state = RuntimeState::kOk}).broken, ChainLink::kDevice);
}

TEST(Usability, AHiddenDevice) {
  const Machine found = machine("rdna3", {{"HIP_VISIBLE_DEVICES", "-1"}});
  const Verdict verdict = with_runtime(found, {.state = RuntimeState::kOk});
  EXPECT_EQ(verdict.reason, "hidden by HIP_VISIBLE_DEVICES");
  EXPECT_EQ(verdict.fix, "unset HIP_VISIBLE_DEVICES");
}

TEST(Usability, Nvidia) {
  TestTree tree("nvidia");
  EXPECT_EQ(first(tree.machine()).reason, "");
  tree.write("facts", "");
  EXPECT_EQ(first(tree.machine()).reason, "/dev/nvidiactl does not exist");
  tree.remove("proc/driver");
  const std::string uevent = "sys/bus/pci/devices/0000:01:00.0/uevent";
  tree.write(uevent, "DRIVER=nouveau\nPCI_SLOT_NAME=0000:01:00.0\n");
  EXPECT_THAT(first(tree.machine()).reason, HasSubstr("the driver nouveau has the card"));
  tree.write(uevent, "PCI_SLOT_NAME=0000:01:00.0\n");
  EXPECT_EQ(first(tree.machine()).fix, "sudo modprobe nvidia");
}

}  // namespace
}  // namespace gabbro::discovery
