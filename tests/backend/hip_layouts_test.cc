// Trees of files as ROCm's releases, distributions and wheels install libamdhip64. The plugin's search (hip_client),
// gabbro_probe and the doctor have to find the same library in each, or to say the same of it.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "src/backend/discovery/fields.h"
#include "src/backend/discovery/runtime_probe.h"
#include "src/backend/discovery/test_tree.h"
#include "src/backend/doctor/doctor.h"
#include "src/backend/survey.h"
#include "src/base/child_process.h"

namespace gabbro::discovery {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::milliseconds kPatience{60000};
constexpr const char* kVariables[] = {
    "GABBRO_TOOLCHAIN_ROOT", "GABBRO_HIP_PATH", "ROCM_PATH",    "HIP_PATH",
    "LD_LIBRARY_PATH",       "VIRTUAL_ENV",     "CONDA_PREFIX", "GABBRO_TEST_RUNTIME"};
constexpr int k5_7 = 50731921, k6_4 = 60443484, k7_2 = 70253211, k7_14 = 71426010, k10_0 = 71526333;

// A machine with an RX 7900, and libraries as they are installed somewhere.
class Layout {
 public:
  Layout() : tree_("rdna3") {
    for (const char* name : kVariables) ::unsetenv(name);
    ::setenv("GABBRO_TOOLCHAIN_ROOT", path("").c_str(), 1);
    const std::string facts = *tree_.root().read("/facts");
    tree_.write("facts", facts.substr(0, facts.find("runtime")));  // the probe answers
  }
  ~Layout() {
    for (const char* name : kVariables) ::unsetenv(name);
  }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  std::string path(const std::string& file) const { return tree_.path(file).string(); }
  TestTree& tree() { return tree_; }

  // FOLDER/NAME, a library whose interface is of this version and which says `version` of itself.
  Layout& library(const std::string& folder, const std::string& name, int version) {
    fs::create_directories(path(folder));
    fs::copy_file(fs::path(GABBRO_TEST_HIP) / std::to_string(version / 10000000), path(folder + "/" + name));
    tree_.write(folder + "/hip_version", std::to_string(version));
    return *this;
  }
  // As above, with the links of packages for developers.
  Layout& library_and_links(const std::string& folder, const std::string& full_name, int version) {
    library(folder, full_name, version);
    const std::string soname = full_name.substr(0, full_name.find('.', full_name.find(".so.") + 4));
    return link(folder + "/" + soname, full_name).link(folder + "/libamdhip64.so", soname);
  }
  Layout& link(const std::string& file, const std::string& target) {
    fs::create_directories(fs::path(path(file)).parent_path());
    fs::create_symlink(target, path(file));
    return *this;
  }
  Layout& set(const char* variable, const std::string& value) {
    ::setenv(variable, value.c_str(), 1);
    return *this;
  }

 private:
  TestTree tree_;
};

std::map<std::string, std::string> plugin_view(const std::string& loaded = {}, const std::string& later = {}) {
  const std::vector<std::string> command = {GABBRO_TEST_HIP "/hip_client", loaded, later};
  const ChildResult child = run_child(command, kPatience);
  EXPECT_TRUE(child.succeeded) << child.ending << ": " << child.output;
  const Fields fields = parse_fields(child.output, '=');
  return {{"path", text_field(fields, "path")},
          {"problem", text_field(fields, "problem")},
          {"blas", text_field(fields, "blas")},
          {"second", text_field(fields, "second")}};
}

doctor::Finding finding(const Layout& layout, const std::string& id) {
  const Machine machine = read_machine(SystemRoot(layout.path("")), Environment::of_process());
  Runtimes runtimes(machine.root);
  const std::vector<Plugin> none;
  for (const doctor::Check& check : doctor::check_table()) {
    if (check.id == id) return check.run({machine, none, runtimes, false});
  }
  ADD_FAILURE() << "there is no check " << id;
  return {};
}

std::string text_of(int version) {
  return std::to_string(version / 10000000) + "." + std::to_string(version / 100000 % 100) + "." +
         std::to_string(version % 100000);
}

void expect_library(const Layout& layout, const std::string& path, int version) {
  EXPECT_EQ(plugin_view()["path"], path) << plugin_view()["problem"];
  const RuntimeReport report = probe_runtime(SystemRoot(layout.path("")), RuntimeKind::kHip, kPatience);
  EXPECT_EQ(report.state, RuntimeState::kOk) << report.message;
  EXPECT_EQ(report.path, path);
  EXPECT_EQ(report.version, text_of(version));
  EXPECT_THAT(finding(layout, "hip-runtime").summary, HasSubstr(path + " " + text_of(version) + " sees 2 GPUs"));
}

void expect_none(const Layout& layout, const testing::Matcher<std::string>& message, const std::string& fix) {
  EXPECT_EQ(plugin_view()["path"], "");
  EXPECT_THAT(plugin_view()["problem"], message);
  const RuntimeReport report = probe_runtime(SystemRoot(layout.path("")), RuntimeKind::kHip, kPatience);
  EXPECT_EQ(report.state, RuntimeState::kMissing);
  EXPECT_THAT(report.message, message);
  const doctor::Finding found = finding(layout, "hip-runtime");
  EXPECT_THAT(found.summary, message);
  EXPECT_THAT(found.fix, HasSubstr(fix));
}

TEST(HipLayouts, Rocm72) {
  Layout layout;
  layout.library_and_links("opt/rocm-7.2.4/lib", "libamdhip64.so.7.2.70204", k7_2).link("opt/rocm", "rocm-7.2.4");
  expect_library(layout, layout.path("opt/rocm/lib/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, Rocm714) {
  Layout layout;
  layout.library("opt/rocm/core-7.14/lib", "libamdhip64.so.7", k7_14);
  expect_library(layout, layout.path("opt/rocm/core-7.14/lib/libamdhip64.so.7"), k7_14);
}

TEST(HipLayouts, Rocm10Small) {
  Layout layout;
  layout.library("opt/rocm/core-10.0/lib", "libamdhip64.so.7", k10_0);
  expect_library(layout, layout.path("opt/rocm/core-10.0/lib/libamdhip64.so.7"), k10_0);
  EXPECT_THAT(finding(layout, "rocm-trees").summary, HasSubstr("one ROCm tree (/opt/rocm/core-10.0)"));
}

TEST(HipLayouts, Rocm10Full) {
  Layout layout;
  layout.library_and_links("opt/rocm/core-10.0/lib", "libamdhip64.so.7.15.26333", k10_0)
      .link("opt/rocm/core", "core-10.0")
      .link("opt/rocm/lib", "core/lib");
  layout.tree().write("opt/rocm/core-10.0/.info/version", "10.0.0\n");
  layout.link("opt/rocm/.info", "core/.info");
  expect_library(layout, layout.path("opt/rocm/lib/libamdhip64.so.7"), k10_0);
  // HIP 7.15 is that of ROCm 10.0.
  EXPECT_EQ(finding(layout, "rocm-trees").status, doctor::CheckStatus::kOk) << finding(layout, "rocm-trees").summary;
}

TEST(HipLayouts, Debian) {
  Layout layout;
  layout.library_and_links("usr/lib/x86_64-linux-gnu", "libamdhip64.so.7.2.53211", k7_2);
  expect_library(layout, layout.path("usr/lib/x86_64-linux-gnu/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, Fedora) {
  Layout layout;
  layout.library("usr/lib64", "libamdhip64.so.7.1.52802", k7_2)
      .link("usr/lib64/libamdhip64.so.7", "libamdhip64.so.7.1.52802");
  expect_library(layout, layout.path("usr/lib64/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, Arch) {
  Layout layout;
  layout.library_and_links("opt/rocm/lib", "libamdhip64.so.7.2.53211", k7_2);
  layout.tree().write("opt/rocm/lib/libamdhip64.so.7.2.53211-gdb.py", "");
  expect_library(layout, layout.path("opt/rocm/lib/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, WheelsOfTheRock) {
  Layout layout;
  const std::string packages = "venv/lib/python3.12/site-packages";
  layout.library(packages + "/_rocm_sdk_core/lib", "libamdhip64.so.7", k10_0);
  layout.library(packages + "/_rocm_sdk_libraries_gfx110X/lib", "librocblas.so.5", k7_2);
  expect_none(layout, HasSubstr("looked for libamdhip64.so.7 and .so.6 in the loader's path, /opt/rocm/lib"), "");
  layout.set("VIRTUAL_ENV", layout.path("venv"));
  expect_library(layout, layout.path(packages + "/_rocm_sdk_core/lib/libamdhip64.so.7"), k10_0);
  EXPECT_EQ(plugin_view()["blas"], layout.path(packages + "/_rocm_sdk_libraries_gfx110X/lib/librocblas.so.5"));
}

TEST(HipLayouts, ThePythonEnvironmentIsThatOfLoadedModules) {
  Layout layout;
  const std::string packages = "env/lib/python3.13/site-packages";
  layout.library(packages + "/_rocm_sdk_core/lib", "libamdhip64.so.7", k10_0);
  const std::string module = layout.path(packages + "/numpy/_core/_multiarray_umath.so");
  fs::create_directories(fs::path(module).parent_path());
  fs::copy_file(GABBRO_TEST_RUNTIMES "/libcuda.so.1", module);
  const std::string expected = layout.path(packages + "/_rocm_sdk_core/lib/libamdhip64.so.7");
  EXPECT_EQ(plugin_view()["path"], "");
  EXPECT_EQ(plugin_view(module)["path"], expected);
  void* const loaded = ::dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << ::dlerror();
  EXPECT_EQ(probe_runtime(SystemRoot(layout.path("")), RuntimeKind::kHip, kPatience).path, expected);
  ::dlclose(loaded);
}

TEST(HipLayouts, Wsl) {
  Layout layout;
  layout.library("usr/lib/wsl/lib", "libamdhip64.so.7", k7_2);
  expect_library(layout, layout.path("usr/lib/wsl/lib/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, Nixos) {
  Layout layout;
  layout.library("nix/store/clr/lib", "libamdhip64.so.6", k6_4).link("run/opengl-driver", "../nix/store/clr");
  expect_library(layout, layout.path("run/opengl-driver/lib/libamdhip64.so.6"), k6_4);
}

TEST(HipLayouts, OfSeveralTheHighestNumber) {
  Layout layout;
  layout.library("opt/rocm-7.2.4/lib", "libamdhip64.so.7", k7_2)
      .library("opt/rocm/core-7.14/lib", "libamdhip64.so.7", k7_14)
      .library("opt/rocm/core-10.0/lib", "libamdhip64.so.7", k10_0)
      .library("opt/rocm-9.1/lib", "libamdhip64.so.7", k7_14);
  expect_library(layout, layout.path("opt/rocm/core-10.0/lib/libamdhip64.so.7"), k10_0);
  EXPECT_THAT(finding(layout, "rocm-trees").summary,
              HasSubstr("4 ROCm trees are installed: /opt/rocm/core-10.0, /opt/rocm-9.1, /opt/rocm/core-7.14, "));
  // Settings of the user come first.
  layout.set("HIP_PATH", layout.path("opt/rocm-7.2.4"));
  expect_library(layout, layout.path("opt/rocm-7.2.4/lib/libamdhip64.so.7"), k7_2);
  layout.set("ROCM_PATH", layout.path("opt/rocm/core-7.14"));
  expect_library(layout, layout.path("opt/rocm/core-7.14/lib/libamdhip64.so.7"), k7_14);
}

TEST(HipLayouts, OnlyTheVersionedName) {
  Layout layout;
  layout.library("opt/rocm/lib", "libamdhip64.so.7", k7_2).library("opt/rocm/lib64", "libamdhip64.so.6", k6_4);
  expect_library(layout, layout.path("opt/rocm/lib/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, OnlyTheFullName) {
  Layout layout;
  layout.library("opt/rocm/lib", "libamdhip64.so.7.2.53211", k7_2);
  expect_library(layout, layout.path("opt/rocm/lib/libamdhip64.so.7.2.53211"), k7_2);
}

TEST(HipLayouts, ABrokenLink) {
  Layout layout;
  layout.link("opt/rocm", "rocm-7.1.0").link("usr/lib64/libamdhip64.so.7", "libamdhip64.so.7.1.52802");
  layout.tree().write("etc/os-release", "ID=fedora\nVERSION_ID=44\n");
  expect_none(layout,
              AllOf(HasSubstr("opt/rocm is a broken link to rocm-7.1.0"),
                    HasSubstr("libamdhip64.so.7 is a broken link to libamdhip64.so.7.1.52802")),
              "sudo dnf install rocm-hip");
  layout.library("opt/rocm-7.2.4/lib", "libamdhip64.so.7", k7_2);
  expect_library(layout, layout.path("opt/rocm-7.2.4/lib/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, Hip5IsNotOpenedNextTo10) {
  Layout layout;
  layout.library_and_links("usr/lib/x86_64-linux-gnu", "libamdhip64.so.5.7.31921", k5_7);
  layout.tree().write("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\nID_LIKE=debian\n");
  expect_none(layout,
              AllOf(HasSubstr("usr/lib/x86_64-linux-gnu/libamdhip64.so.5 is HIP 5, older than HIP 6"),
                    HasSubstr("looked for libamdhip64.so.7 and .so.6")),
              "sudo apt install amdrocm-runtime, after adding AMD's package repository");
  layout.library("opt/rocm/core-10.0/lib", "libamdhip64.so.7", k10_0);
  expect_library(layout, layout.path("opt/rocm/core-10.0/lib/libamdhip64.so.7"), k10_0);
  EXPECT_THAT(finding(layout, "rocm-trees").summary,
              HasSubstr("/libamdhip64.so.5 of an old ROCm is on the loader's path"));
  EXPECT_THAT(finding(layout, "rocm-trees").fix, HasSubstr("apt remove libamdhip64-5"));
}

TEST(HipLayouts, AnUnknownVersionIsNamedAndOpenedOnRequest) {
  Layout layout;
  layout.library("opt/rocm/core-11.0/lib", "libamdhip64.so.8", 80100000);
  const std::string path = layout.path("opt/rocm/core-11.0/lib/libamdhip64.so.8");
  expect_none(layout,
              AllOf(HasSubstr(path + " is HIP 8, newer than this version of Gabbro knows"),
                    HasSubstr("GABBRO_HIP_PATH=" + path)),
              "");
  layout.set("GABBRO_HIP_PATH", path);
  expect_library(layout, path, 80100000);
  layout.library("opt/rocm/core-10.0/lib", "libamdhip64.so.7", k10_0).set("GABBRO_HIP_PATH", "");
  expect_library(layout, layout.path("opt/rocm/core-10.0/lib/libamdhip64.so.7"), k10_0);
}

TEST(HipLayouts, GabbroHipPathIsTheOnlyPlace) {
  Layout layout;
  layout.library("opt/rocm/lib", "libamdhip64.so.7", k7_2).library("home/rocm/lib", "libamdhip64.so.7", k10_0);
  for (const char* named : {"home/rocm/lib/libamdhip64.so.7", "home/rocm/lib", "home/rocm", "home/rocm/"}) {
    SCOPED_TRACE(named);
    layout.set("GABBRO_HIP_PATH", layout.path(named));
    EXPECT_EQ(fs::canonical(plugin_view()["path"]), fs::canonical(layout.path("home/rocm/lib/libamdhip64.so.7")));
  }
  layout.set("GABBRO_HIP_PATH", layout.path("home/gone"));
  expect_none(layout, HasSubstr("GABBRO_HIP_PATH=" + layout.path("home/gone") + ": no such file or folder"), "");
  layout.set("GABBRO_HIP_PATH", layout.path("home"));
  expect_none(layout, HasSubstr("holds no library of HIP (libamdhip64.so.7)"), "");
  layout.tree().write("home/text", "not a library");
  layout.set("GABBRO_HIP_PATH", layout.path("home/text"));
  expect_none(layout, HasSubstr("home/text: "), "");
}

TEST(HipLayouts, AFileThatCannotBeLoadedIsNamedAndTheNextTaken) {
  Layout layout;
  layout.tree().write("opt/rocm/lib/libamdhip64.so.7", "not a library");
  expect_none(layout, HasSubstr("opt/rocm/lib/libamdhip64.so.7: "), "");
  layout.library("opt/rocm-7.2.4/lib", "libamdhip64.so.7", k7_2);
  expect_library(layout, layout.path("opt/rocm-7.2.4/lib/libamdhip64.so.7"), k7_2);
}

TEST(HipLayouts, ACopyThatTheProcessHasLoadedComesFirst) {
  Layout layout;
  layout.library("opt/rocm/lib", "libamdhip64.so.7", k7_2)
      .library("venv/lib/python3.12/site-packages/torch/lib", "libamdhip64-4d1c.so", k10_0);
  const std::string torch = layout.path("venv/lib/python3.12/site-packages/torch/lib/libamdhip64-4d1c.so");
  EXPECT_EQ(plugin_view(torch)["path"], torch);
  void* const loaded = ::dlopen(torch.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(loaded, nullptr) << ::dlerror();
  const RuntimeReport report = probe_runtime(SystemRoot(layout.path("")), RuntimeKind::kHip, kPatience);
  EXPECT_EQ(report.path, torch);
  EXPECT_EQ(report.version, text_of(k10_0));
  ::dlclose(loaded);
  layout.library("old/lib", "libamdhip64.so.5", k5_7);
  EXPECT_THAT(plugin_view(layout.path("old/lib/libamdhip64.so.5"))["problem"],
              HasSubstr("libamdhip64.so.5, HIP 5, and Gabbro needs HIP 6 or 7"));
}

TEST(HipLayouts, ASecondRuntimeInTheProcessIsRefused) {
  Layout layout;
  layout.library("torch/lib", "libamdhip64.so.7", k10_0).library("home/rocm/lib", "libamdhip64.so.7", k7_2);
  const std::string torch = layout.path("torch/lib/libamdhip64.so.7"), home = layout.path("home/rocm/lib");
  for (const std::string& named : {home, home + "/libamdhip64.so.7"}) {
    layout.set("GABBRO_HIP_PATH", named);
    auto view = plugin_view(torch);
    EXPECT_EQ(view["path"], "");
    EXPECT_THAT(view["problem"], HasSubstr(home +
                                           "/libamdhip64.so.7 would be a second HIP runtime in this process, "
                                           "which has loaded " +
                                           torch));
  }
  layout.set("GABBRO_HIP_PATH", layout.path("torch/lib"));
  EXPECT_EQ(plugin_view(torch)["path"], torch);
  EXPECT_EQ(plugin_view(torch)["second"], "");
  // One that is loaded after Gabbro's.
  layout.set("GABBRO_HIP_PATH", home);
  EXPECT_THAT(plugin_view("", torch)["second"],
              HasSubstr("two HIP runtimes, " + home + "/libamdhip64.so.7 and " + torch + ", which crash each other"));
}

TEST(HipLayouts, LibrariesOfHipComeFromItsFolder) {
  Layout layout;
  layout.library("opt/rocm/core-10.0/lib", "libamdhip64.so.7", k10_0)
      .library("opt/rocm/core-10.0/lib", "librocblas.so.5", k10_0)
      .library("opt/rocm/lib", "librocblas.so.5", k7_2)
      .library("other", "librocblas.so.5", k7_2)
      .set("LD_LIBRARY_PATH", layout.path("other"));
  EXPECT_EQ(plugin_view()["blas"], layout.path("opt/rocm/core-10.0/lib/librocblas.so.5"));
  fs::remove(layout.path("opt/rocm/core-10.0/lib/librocblas.so.5"));
  EXPECT_EQ(plugin_view()["blas"], layout.path("other/librocblas.so.5"));
}

TEST(HipLayouts, WithoutAnyTheMessageHasThePackageOfThisDistribution) {
  Layout layout;
  for (const auto& [system, fix] : std::map<std::string, std::string>{
           {"ID=ubuntu\nVERSION_ID=\"26.04\"\nID_LIKE=debian\n", "sudo apt install libamdhip64-7 libhiprtc7"},
           {"PRETTY_NAME=\"Debian GNU/Linux forky/sid\"\nID=debian\n", "sudo apt install libamdhip64-7 libhiprtc7"},
           {"ID=debian\nVERSION_ID=\"13\"\n", "amdrocm-runtime, after adding AMD's package repository"},
           {"ID=fedora\nVERSION_ID=45\n", "sudo dnf install rocm-hip"},
           {"ID=cachyos\nID_LIKE=arch\n", "sudo pacman -S hip-runtime-amd"},
           {"ID=steamos\nID_LIKE=arch\n", "GABBRO_HIP_PATH"},
           {"ID=nixos\n", "rocmPackages.clr"},
           {"ID=rocky\nID_LIKE=\"rhel centos fedora\"\n", "sudo dnf install amdrocm-runtime"},
           {"ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n", "sudo zypper install amdrocm-runtime"},
           {"ID=other\n", "GABBRO_HIP_PATH"}}) {
    layout.tree().write("etc/os-release", system);
    EXPECT_THAT(finding(layout, "hip-runtime").fix, HasSubstr(fix)) << system;
  }
  layout.tree().write("etc/os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\n");
  layout.tree().write("etc/apt/sources.list.d/rocm.list", "deb https://repo.radeon.com/rocm/apt/7.2 noble main\n");
  EXPECT_EQ(finding(layout, "hip-runtime").fix, "sudo apt install hip-runtime-amd");
  layout.tree().write("etc/apt/sources.list.d/new.list",
                      "deb https://repo.amd.com/rocm/packages/ubuntu2404 stable main\n");
  EXPECT_EQ(finding(layout, "hip-runtime").fix, "sudo apt install amdrocm-runtime");
}

}  // namespace
}  // namespace gabbro::discovery
