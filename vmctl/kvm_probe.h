#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "vmctl/virtualization.h"

namespace virtrain::vmctl {

struct KvmVerdict {
  Virtualization virtualization = Virtualization::tcg;  ///< kvm, kvm_nested, kvm_on_emulated or tcg
  std::string reason;  ///< one sentence for people, why it is not plain KVM or how long the probe took
};

/// Boots `kernel` with a one-line initrd under KVM and waits for its line. The answer is kept per boot and
/// kernel under `cache`. Without vmx or svm in /proc/cpuinfo it answers tcg at once: stock kernels hang
/// there.
KvmVerdict probe_kvm(const std::filesystem::path& kernel, const std::filesystem::path& cache,
                     std::chrono::milliseconds deadline = std::chrono::seconds(15));

/// libvirt re-probes QEMU for about 80 s at every start while /dev/kvm exists but QEMU's user cannot open it.
/// As root: group kvm, mode 0660. Returns what was done in words; empty if there was nothing to do.
std::string fix_kvm_device();

}  // namespace virtrain::vmctl
