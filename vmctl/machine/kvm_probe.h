#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "common/model/virtualization.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

struct Inventory;

struct KvmVerdict {
  Virtualization virtualization = Virtualization::tcg;  ///< kvm, kvm_nested, kvm_on_emulated or tcg
  std::string reason;  ///< one sentence for people, why it is not plain KVM or how long the probe took
};

/// Everything a probe guest runs on; where any of it changes, virtrain tries KVM again.
struct KvmSubject {
  std::filesystem::path kernel;
  std::filesystem::path qemu;    ///< empty: not on PATH
  std::filesystem::path device;  ///< /dev/kvm
};

/// Names a verdict: this boot, the kernel and QEMU's binary by size and time, the device's mode and owner,
/// and our user.
std::string kvm_verdict_key(const KvmSubject& subject);

/// Whether what a probe guest showed is kept until its key changes: that it booted, or that it took long to
/// fail where the host was not `busy`. Otherwise it costs little to learn again, and what others do may be to
/// blame (another hypervisor holds the CPU, a build all cores), which ends within a boot.
bool keeps_verdict(bool booted, std::chrono::nanoseconds took, bool busy);

/// Boots `kernel` with a one-line initrd under KVM and waits for its line. keeps_verdict() says whether the
/// answer is kept under `cache`; what stands in the way of any probe (no /dev/kvm, no permission, no QEMU, no
/// kernel) never is. Without vmx or svm in /proc/cpuinfo it answers tcg at once: stock kernels hang there.
KvmVerdict probe_kvm(const std::filesystem::path& kernel, const std::filesystem::path& cache,
                     std::chrono::milliseconds deadline = std::chrono::seconds(15));

/// The result of trying KVM on a host.
struct KvmTrial {
  int open_error = 0;   ///< errno of opening /dev/kvm; 0: it opens
  int api_version = 0;  ///< of a /dev/kvm that opens
  KvmVerdict guest;     ///< of the probe guest, or why there was none
};

/// Tries it here; of a recorded host reads var/lib/virtrain/kvm.json ("open_error", "api_version",
/// "virtualization", "reason"), nothing where that is missing.
std::optional<KvmTrial> try_kvm(const std::filesystem::path& root);

/// Traits of this host's processor for KVM guests. `qemu`: "QEMU 7.2.22".
CpuTraits cpu_traits(const Inventory& host, const std::string& qemu);

}  // namespace virtrain::vmctl
