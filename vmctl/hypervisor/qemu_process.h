#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vmctl/api/node.h"

namespace virtrain::vmctl {

/// Debian's name of QEMU's account, and Fedora's.
inline constexpr const char* qemu_accounts[] = {"libvirt-qemu", "qemu"};

/// Whether the process has a command line of that domain's QEMU.
bool runs_domain(pid_t process, const std::string& domain);

/// Pid of a domain's QEMU where this host runs it: by libvirt's pid file, else by its name among the
/// processes of this user and of QEMU's accounts. Its command line is the domain's: the file may be old, or
/// in a folder of somebody else's.
std::optional<pid_t> qemu_pid(const std::string& domain);

/// Number of the vCPU whose thread has this name ("CPU 1/TCG", "CPU 0/KVM"); nothing for other threads.
std::optional<int> vcpu_of_thread(std::string_view thread_name);

/// CPU and waiting time of each vCPU thread of a QEMU process, from /proc: libvirt gives none under TCG.
std::vector<VcpuStats> read_vcpu_threads(pid_t qemu);

/// The last lines, five at most, of what came after the command line of the newest start in libvirt's log of
/// a domain: QEMU's own errors and libvirt's reason for its end ("shutting down, reason=crashed").
std::string qemu_last_words(std::string_view log);

/// Those of a domain of this host; empty where its log cannot be read. `cache`: of a libvirt that does not
/// keep its logs in the user's own.
std::string read_qemu_last_words(const std::string& domain, const std::filesystem::path& cache = {});

}  // namespace virtrain::vmctl
