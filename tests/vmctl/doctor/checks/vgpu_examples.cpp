#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// vGPUs of the L40S: a virtual function and its type each.
Change vgpus(const std::vector<std::pair<std::string, std::string>>& wanted) {
  return [=](HostTree& tree) {
    for (const auto& [function, type] : wanted) {
      tree.want({{GrantKind::vendor_vfio, function, "0000:41:00.0", type}});
    }
  };
}

Change mixed_sizes(const std::string& mode) {
  return [=](HostTree& tree) {
    tree.write_gpu_reports({{"0000:41:00.0", "<gpu_virtualization_mode><vgpu_heterogeneous_mode>" + mode +
                                                 "</vgpu_heterogeneous_mode></gpu_virtualization_mode>"}});
  };
}

Change mig(const std::string& now, const std::string& pending) {
  return [=](HostTree& tree) {
    tree.write_gpu_reports({{"0000:07:00.0", "<mig_mode><current_mig>" + now + "</current_mig><pending_mig>" +
                                                 pending + "</pending_mig></mig_mode>"}});
  };
}

}  // namespace

Examples vgpu_examples() {
  const Change manager = [](HostTree& tree) { tree.process(1200, "nvidia-vgpu-mgr"); };
  return {
      {"VG-1", {manager, as_it_is, "nvidia-vgpu-mgr does not run", "mdev-host"}},
      {"VG-2",
       {as_it_is,
        [](HostTree& tree) {
          tree.want({{GrantKind::mdev, "0000:41:00.5", "", "nvidia-474"}});
        },
        "0000:41:00.5 offers vendor_vfio, not mdev", "vendor-vfio-host"}},
      {"VG-3",
       {vgpus({{"0000:41:00.5", "1153"}, {"0000:41:00.6", "NVIDIA L40S-24C"}}),
        vgpus({{"0000:41:00.4", "1153"}}), "0000:41:00.4 can make 0 of type 1153", "vendor-vfio-host"}},
      {"VG-4",
       {mig("Enabled", "Enabled"), mig("Disabled", "Enabled"),
        "0000:07:00.0 has MIG off, on after the next reset", "mig-host"}},
      {"VG-5",
       {both(vgpus({{"0000:41:00.5", "1150"}, {"0000:41:00.6", "1153"}}), mixed_sizes("Enabled")),
        both(vgpus({{"0000:41:00.5", "1150"}, {"0000:41:00.6", "1153"}}), mixed_sizes("Disabled")),
        "is to carry vGPUs of several sizes", "vendor-vfio-host"}},
      {"VG-6",
       {[](HostTree& tree) {
          tree.log(
              "[ 5.0] NVRM: GPU at 0000:3b:00.0 has software scheduler ENABLED with policy EQUAL_SHARE.\n"
              "[ 5.1] NVRM: GPU at 0000:5e:00.0 has software scheduler DISABLED with policy BEST_EFFORT.");
        },
        [](HostTree& tree) {
          tree.log(
              "[ 5.0] NVRM: GPU at 0000:3b:00.0 has software scheduler ENABLED with policy EQUAL_SHARE.");
        },
        "0000:5e:00.0 does not tell", "mdev-host"}},
      {"VG-7",
       {writes("sys/bus/pci/devices/0000:41:00.4/nvidia/vgpu_params", ""),
        writes("sys/bus/pci/devices/0000:41:00.4/nvidia/vgpu_params", "frame_rate_limiter=0"),
        "0000:41:00.4 frame_rate_limiter=0", "vendor-vfio-host"}},
  };
}

}  // namespace virtrain::vmctl
