#include <fmt/format.h>

#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

void put_on(const HostTree& tree, const char* folder, const std::string& driver) {
  tree.link(fs::path(folder) / "driver", "../../../../bus/pci/drivers/" + driver);
}

/// The card's audio function, in the card's own group; the GPU itself is on vfio-pci.
Change audio_function_on(const std::string& driver) {
  return [=](HostTree& tree) {
    const fs::path audio = "sys/devices/pci0000:16/0000:16:02.0/0000:17:00.1";
    tree.write(audio / "class", "0x040300");
    put_on(tree, audio.c_str(), driver);
    tree.link("sys/bus/pci/devices/0000:17:00.1", "../../../devices/pci0000:16/0000:16:02.0/0000:17:00.1");
    tree.link("sys/kernel/iommu_groups/21/devices/0000:17:00.1", "x");
    put_on(tree, gpu_folder, "vfio-pci");
  };
}

/// Lent as virtrain does it; `pid` has it, if there is one.
Change lent_to(std::optional<int> pid) {
  return [=](HostTree& tree) {
    tree.write(fs::path(gpu_folder) / "driver_override", "vfio-pci");
    put_on(tree, gpu_folder, "vfio-pci");
    if (pid) { tree.link(fmt::format("proc/{}/fd/11", *pid), "/dev/vfio/21"); }
  };
}

/// A process that has the second socket's GPU open, in a service or not.
Change user(const std::string& name, const std::string& unit) {
  return [=](HostTree& tree) {
    tree.process(77, name);
    tree.link("proc/77/fd/9", "/dev/nvidia2");
    tree.write("proc/77/cgroup", "0::/system.slice/" + unit);
  };
}

Change persistence(const std::string& mode, bool by_daemon) {
  return [=](HostTree& tree) {
    tree.write_gpu_reports({{gpu_address, "<persistence_mode>" + mode + "</persistence_mode>"}});
    if (by_daemon) { tree.process(2200, "nvidia-persiste"); }
  };
}

/// A plan that gives the first GPU, or a disk on the host's driver in its place, to a VM.
Change wants(BetweenTenants how, bool disk) {
  return [=](HostTree& tree) {
    if (disk) {
      tree.write(fs::path(gpu_folder) / "class", "0x010802");
      put_on(tree, gpu_folder, "nvme");
    }
    tree.want({{.kind = GrantKind::passthrough, .address = gpu_address, .between_tenants = how}});
  };
}

const char* const stuck =
    "[  912.1] NVRM: Attempting to remove device 0000:17:00.0 with non-zero usage count!";

}  // namespace

Examples driver_examples() {
  return {
      {"DRV-1",
       {audio_function_on("vfio-pci"), audio_function_on("snd_hda_intel"), "0000:17:00.1 on snd_hda_intel"}},
      {"DRV-2",
       {as_it_is, writes(fs::path(gpu_folder) / "driver_override", "vfio-pci"), "driver_override vfio-pci"}},
      {"DRV-3",
       {writes("etc/modprobe.d/vfio.conf", "options vfio_pci disable_idle_d3=1"),
        writes("etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:20f1"),
        "in /etc/modprobe.d/vfio.conf"}},
      {"DRV-4",
       {as_it_is, [](HostTree& tree) { put_on(tree, gpu_folder, "nouveau"); }, "0000:17:00.0 is on nouveau"}},
      {"USE-1",
       {user("nvidia-persiste", "nvidia-persistenced.service"), user("python3", "user.slice"),
        "0000:b1:00.0 is in use: python3 (pid 77)"}},
      {"USE-2", {persistence("Enabled", true), persistence("Enabled", false), "0000:17:00.0 is kept open"}},
      // The message stays in the log when the driver has let go in the end.
      {"USE-3",
       {[](HostTree& tree) { tree.log(stuck); },
        [](HostTree& tree) {
          tree.log(stuck);
          fs::remove(tree.root / gpu_folder / "driver");
        },
        "0000:17:00.0 is being unbound"}},
      {"RST-1", {as_it_is, writes(fs::path(gpu_folder) / "reset_method", "pm"), "resets by pm only"}},
      {"CLR-1",
       {wants(BetweenTenants::erase, true), wants(BetweenTenants::erase, false),
        "0000:17:00.0 cannot be erased: only whole NVMe disks can be erased"}},
      {"RST-2", {as_it_is, writes(fs::path(gpu_folder) / "power_state", "D3cold"), "D3cold"}},
      {"QRT-0",
       {as_it_is, [](HostTree& tree) { tree.quarantined[gpu_address] = "it did not come back"; },
        "0000:17:00.0 is in quarantine: it did not come back"}},
      {"LEAK-1",
       {lent_to(4711), lent_to(std::nullopt), "0000:17:00.0 is bound to vfio-pci and no process has it"}},
  };
}

}  // namespace virtrain::vmctl
