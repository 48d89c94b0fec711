#pragma once

#include <filesystem>
#include <string>
#include <thread>

#include "tests/support/catch.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/hypervisor/hypervisor.h"

namespace virtrain::vmctl {

/// A node of 256 MiB and one core, on the network virtrain-vmtest.
inline DomainSpec guest(const GuestImage& image, int number, const std::filesystem::path& logs) {
  DomainSpec spec;
  spec.name = "virtrain-vmtest-" + std::to_string(number);
  spec.mark = {"vmtest", "node" + std::to_string(number)};
  spec.memory_bytes = 256U << 20;
  spec.virtualization = Virtualization::tcg;
  spec.kernel = image.kernel;
  spec.initrd = image.initrd;
  spec.root_image = image.root;
  const auto address = [](int n) { return "10.77.9.1" + std::to_string(n); };
  spec.kernel_command_line = guest_command_line(
      {"g" + std::to_string(number), address(number) + "/24", {{"g1", address(1)}, {"g2", address(2)}}});
  spec.nics = {{NicKind::network, "virtrain-vmtest", "52:54:00:77:09:1" + std::to_string(number),
                "vttap" + std::to_string(number)}};
  spec.vcpu_cores = {(number - 1) % static_cast<int>(std::thread::hardware_concurrency())};
  spec.console_log = logs / ("console" + std::to_string(number));
  return spec;
}

inline std::filesystem::path log_place() {
  return std::filesystem::temp_directory_path() / "virtrain-vmtest";
}

inline std::filesystem::path log_folder() {
  std::filesystem::create_directories(log_place());
  return log_place();
}

/// Removes the test's domains, network and logs whatever happens.
struct Stage {
  explicit Stage(Hypervisor& used) : hypervisor(used) { clear(); }
  ~Stage() {
    try {
      clear();
    } catch (const std::exception& error) { WARN("could not clear the stage: " << error.what()); }
  }
  void clear() {
    for (const auto* name : {"virtrain-vmtest-1", "virtrain-vmtest-2"}) { hypervisor.destroy_domain(name); }
    hypervisor.destroy_network("virtrain-vmtest");
    std::error_code ignored;
    std::filesystem::remove_all(log_place(), ignored);
  }
  Hypervisor& hypervisor;
};

}  // namespace virtrain::vmctl
