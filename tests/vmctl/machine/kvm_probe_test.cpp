#include "vmctl/machine/kvm_probe.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/catch.h"
#include "vmctl/machine/host_words.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path tree_hosts = fs::path(VIRTRAIN_BINARY_DIR) / "hosts";

TEST_CASE("arch-capabilities are hidden on AMD hosts whose QEMU would pass them on") {
  const auto amd = load_machine(tree_hosts / "vendor-vfio-host");
  CHECK(amd.cpu_vendor == "AuthenticAMD");
  CHECK(cpu_traits(amd, "QEMU 7.2.22").hide_arch_capabilities);
  CHECK(cpu_traits(amd, "QEMU 10.0.13").hide_arch_capabilities);
  CHECK_FALSE(cpu_traits(amd, "QEMU 10.1.0").hide_arch_capabilities);
  CHECK_FALSE(cpu_traits(amd, "").hide_arch_capabilities);
  const auto intel = load_machine(tree_hosts / "r750xa");
  CHECK(intel.cpu_vendor == "GenuineIntel");
  CHECK_FALSE(cpu_traits(intel, "QEMU 7.2.22").hide_arch_capabilities);
  CHECK(cpu_traits(amd, "QEMU 10.1.0").threads_need_topoext);
  CHECK_FALSE(cpu_traits(intel, "QEMU 10.1.0").threads_need_topoext);
}

TEST_CASE("a recorded host that does not say how KVM fared was not tried") {
  CHECK_FALSE(try_kvm(tree_hosts / "r750xa"));
}

TEST_CASE("a recorded host says its QEMU") {
  CHECK(qemu_version(tree_hosts / "laptop").empty());
}

/// A folder with a kernel, a QEMU and a /dev/kvm in name.
struct ProbeFolder {
  ProbeFolder() {
    fs::create_directories(root);
    for (const auto& file : {subject.kernel, subject.qemu, subject.device}) {
      std::ofstream(file) << "first";
    }
  }
  ~ProbeFolder() { fs::remove_all(root); }
  ProbeFolder(const ProbeFolder&) = delete;
  ProbeFolder& operator=(const ProbeFolder&) = delete;

  fs::path root = fs::temp_directory_path() / ("virtrain-kvm-probe-" + std::to_string(::getpid()));
  KvmSubject subject{root / "vmlinuz", root / "qemu-system-x86_64", root / "kvm"};
};

TEST_CASE("a verdict on KVM is another's once QEMU, the kernel or the device's permissions changed") {
  const ProbeFolder folder;
  auto subject = folder.subject;
  auto before = kvm_verdict_key(subject);
  CHECK(kvm_verdict_key(subject) == before);
  const auto changes = [&](const char* what, const std::function<void()>& change) {
    INFO(what);
    change();
    const auto after = kvm_verdict_key(subject);
    CHECK(after != before);
    before = after;
  };
  const auto later = [](const fs::path& file) {
    fs::last_write_time(file, fs::last_write_time(file) + std::chrono::hours(1));
  };
  changes("QEMU grew", [&] { std::ofstream(subject.qemu) << "upgraded"; });
  changes("QEMU is as large, but younger", [&] { later(subject.qemu); });
  changes("the kernel is younger", [&] { later(subject.kernel); });
  changes("the device's mode", [&] { fs::permissions(subject.device, fs::perms{0600}); });
  changes("QEMU was removed", [&] { fs::remove(subject.qemu); });
  changes("another QEMU is found first", [&] { subject.qemu = folder.root / "kvm"; });
}

TEST_CASE("a negative verdict is kept only where it was dear, and only a quiet host's") {
  using std::chrono::milliseconds, std::chrono::seconds;
  CHECK(keeps_verdict(true, milliseconds(900), false));
  CHECK(keeps_verdict(true, seconds(14), true));
  CHECK(keeps_verdict(false, seconds(15), false));
  CHECK_FALSE(keeps_verdict(false, seconds(15), true));         // perhaps only for want of a core
  CHECK_FALSE(keeps_verdict(false, milliseconds(300), false));  // "Device or resource busy"
}

TEST_CASE("what stands in the way of a probe is looked up each time, and nothing of it is kept") {
  const ProbeFolder folder;
  const auto cache = folder.root / "cache";
  const auto verdict = probe_kvm(folder.root / "no-kernel", cache);  // without KVM that is the reason
  CHECK(verdict.virtualization == Virtualization::tcg);
  CHECK_FALSE(verdict.reason.empty());
  CHECK(fs::is_empty(cache));
}

}  // namespace
}  // namespace virtrain::vmctl
