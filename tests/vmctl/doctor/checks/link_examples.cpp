#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {

namespace fs = std::filesystem;

Examples link_examples() {
  const fs::path fatal = fs::path(gpu_folder) / "aer_dev_fatal";
  // ATS: enabled is bit 15 of its control.
  const auto adapter = [](unsigned control) {
    return [=](HostTree& tree) {
      tree.write("sys/module/nvidia_peermem/initstate", "live");
      tree.write_config("0000:98:00.0", 0x000f, control);
    };
  };
  return {
      {"LNK-1",
       {as_it_is, writes(fs::path(other_gpu_folder) / "current_link_width", "8"), "runs 8 of 16 lanes"}},
      {"AER-1",
       {writes(fatal, "Undefined 0\nTOTAL_ERR_FATAL 0"), writes(fatal, "DLP 2\nTOTAL_ERR_FATAL 2"),
        "0000:17:00.0 has had 2 uncorrected"}},
      {"NUM-0",
       {as_it_is, writes(fs::path(other_gpu_folder) / "numa_node", "-1"), "0000:b1:00.0 is on no NUMA node"}},
      {"RDM-1", {adapter(0x8000), adapter(0), "0000:98:00.0 has ATS, not enabled"}},
  };
}

}  // namespace virtrain::vmctl
