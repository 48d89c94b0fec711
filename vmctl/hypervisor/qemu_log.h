#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace virtrain::vmctl {

/// The last lines, five at most, of what came after the command line of the newest start in libvirt's log of
/// a domain: QEMU's own errors and libvirt's reason for its end ("shutting down, reason=crashed").
std::string qemu_last_words(std::string_view log);

/// Those of a domain of this host; empty where its log cannot be read. `cache`: of a libvirt that does not
/// keep its logs in the user's own.
std::string read_qemu_last_words(const std::string& domain, const std::filesystem::path& cache = {});

}  // namespace virtrain::vmctl
