#include <fstream>
#include <set>

#include "tests/support/catch.h"
#include "tests/vmctl/doctor/checks/examples.h"
#include "vmctl/doctor/checks/tables.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

Examples all_examples() {
  Examples all;
  for (auto& some : {iommu_examples(), version_examples(), driver_examples(), link_examples(),
                     memory_examples(), vgpu_examples(), health_examples(), machine_examples()}) {
    all.insert(some.begin(), some.end());
  }
  return all;
}

TEST_CASE(
    "every check of devices: a tree that passes, a tree that fails, with what is wrong and what to do") {
  const auto examples = all_examples();
  CHECK(examples.size() == device_checks().size());
  for (const auto& check : device_checks()) {
    INFO(check.id);
    REQUIRE(examples.contains(check.id));
    const auto& example = examples.at(check.id);
    {
      HostTree tree(example.host);
      example.pass(tree);
      const auto finding = tree.examine(check.id);
      INFO(finding.found);
      CHECK(finding.status == CheckStatus::ok);
      CHECK(finding.fix.empty());
      CHECK_FALSE(finding.found.empty());
    }
    HostTree tree(example.host);
    example.fail(tree);
    const auto finding = tree.examine(check.id);
    CHECK(finding.status == CheckStatus::failed);
    CHECK_THAT(finding.found, virtrain::test::Contains(example.words));
    CHECK_FALSE(finding.fix.empty());
  }
}

TEST_CASE("each id is one row") {
  std::set<std::string> ids;
  for (const auto& check : device_checks()) { CHECK(ids.insert(check.id).second); }
}

TEST_CASE("checks that do not apply say when they would") {
  const fs::path laptop = fs::path(VIRTRAIN_BINARY_DIR) / "hosts/laptop";
  const DeviceHost host{laptop, load_inventory(laptop)};
  for (const auto& check : device_checks()) {
    INFO(check.id);
    if (std::string(check.applies_when) == "always") { continue; }
    const auto finding = examine(check, host);
    CHECK(finding.status == CheckStatus::skipped);
    CHECK(finding.found == std::string("applies when ") + check.applies_when);
  }
}

TEST_CASE("groups that the ACS override made are not trusted, least of all between tenants") {
  HostTree tree("r750xa");
  tree.write("proc/cmdline", "quiet pcie_acs_override=downstream,multifunction");
  CHECK(tree.examine("IOM-5").severity == Severity::warns);
  tree.want({{GrantKind::passthrough, gpu_address}});
  tree.plan().several_tenants = true;
  CHECK(tree.examine("IOM-5").severity == Severity::invalidates);
}

TEST_CASE("what of an adapter or a link is not ours to read is not judged") {
  HostTree tree("r750xa");
  CHECK(tree.examine("RDM-2").status == CheckStatus::skipped);
  std::ofstream(tree.root / "sys/bus/pci/devices/0000:98:00.0/config") << std::string(64, '\x10');
  CHECK(tree.examine("RDM-2").status == CheckStatus::skipped);
  tree.write_express_config("0000:98:00.0", 0);
  CHECK(tree.examine("RDM-2").status == CheckStatus::failed);
  tree.write_express_config("0000:98:00.0", 0x10);
  tree.write("var/lib/virtrain/mlxconfig-query.txt",
             "Device #1:\n----------\n\nDevice type:        ConnectX6\nDevice:             0000:98:00.0\n\n"
             "Configurations:                              Next Boot\n"
             "        PCI_WR_ORDERING                     per_mkey(0)\n");
  CHECK(tree.examine("RDM-2").found ==
        "adapters may write with relaxed ordering; 0000:98:00.0 has PCI_WR_ORDERING per_mkey(0)");
  tree.write_express_config("0000:98:00.0", 0);
  // A virtual function in a VM: its own bit says nothing.
  tree.write("sys/bus/pci/devices/0000:98:00.0/device", "0x101c");
  CHECK(tree.examine("RDM-2").status == CheckStatus::skipped);
  // One on the host: its physical function's bit counts.
  tree.link("sys/bus/pci/devices/0000:98:00.0/physfn", "../0000:98:00.1");
  tree.write_express_config("0000:98:00.1", 0x10);
  CHECK(tree.examine("RDM-2").status == CheckStatus::ok);
  tree.write_express_config("0000:98:00.1", 0);
  CHECK(tree.examine("RDM-2").status == CheckStatus::failed);
}

TEST_CASE("a GPU in a slow slot, an adapter that came up slow, and an idle GPU") {
  HostTree tree("r750xa");  // its GPUs are idle, at 2.5 GT/s
  CHECK(tree.examine("LNK-2").status == CheckStatus::ok);
  tree.write("sys/bus/pci/devices/0000:98:00.0/current_link_width", "8");
  CHECK(tree.examine("LNK-2").found == "0000:98:00.0 can 16 GT/s x16, and runs 16 GT/s x8");
  HostTree slot("r750xa");
  slot.write("sys/bus/pci/devices/0000:16:02.0/max_link_speed", "8.0 GT/s PCIe");
  CHECK(slot.examine("LNK-2").found == "0000:17:00.0 can 16 GT/s x16, and its slot 8 GT/s x16");
  HostTree unknown("r750xa");
  unknown.write("sys/bus/pci/devices/0000:16:02.0/max_link_speed", "Unknown");
  CHECK(unknown.examine("LNK-2").status == CheckStatus::ok);
}

TEST_CASE("a device on another NUMA node than its neighbours, or on one that is not there") {
  HostTree adapter("r750xa");  // two ports on node 1
  adapter.write("sys/bus/pci/devices/0000:98:00.0/numa_node", "-1");
  CHECK(adapter.examine("NUM-0").found == "0000:98:00.0 is on no NUMA node");
  HostTree gone("r750xa");
  gone.write("sys/bus/pci/devices/0000:17:00.0/numa_node", "7");
  CHECK(gone.examine("NUM-0").found == "0000:17:00.0 is on NUMA node 7, which the host does not have");
  HostTree apart("hgx-h200");  // the GPU and the adapter of one switch
  apart.write("sys/bus/pci/devices/0000:19:00.0/numa_node", "1");
  CHECK_THAT(apart.examine("NUM-0").found, virtrain::test::Contains("other devices of pci0000:15 on "));
}

TEST_CASE("waiting for cores and disks is told by the kernel's pressure, where it counts it") {
  HostTree tree("r750xa");
  CHECK(tree.examine("CPU-3").status == CheckStatus::skipped);
  tree.write("proc/pressure/io",
             "some avg10=0.00 avg60=0.00 avg300=20.00 total=1\nfull avg10=0.00 avg60=0.00 "
             "avg300=12.50 total=1");
  CHECK(tree.examine("CPU-3").found == "all waited for disks in 12.5 % of the last five minutes");
  tree.write("proc/pressure/cpu", "some avg10=99.00 avg60=99.00 avg300=31.00 total=1");
  CHECK_THAT(tree.examine("CPU-3").found, virtrain::test::Contains("processes waited for a core in 31.0 %"));
}

TEST_CASE("a device whose configuration space reads as ones is dead, whatever the kernel still knows of it") {
  HostTree tree("r750xa");
  const auto config = tree.root / "sys/bus/pci/devices/0000:17:00.0/config";
  // A virtual function's ids read as ones.
  std::ofstream(config) << std::string(4, '\xff') + std::string(60, '\0');
  CHECK(tree.examine("RST-2").status == CheckStatus::ok);
  std::ofstream(config) << std::string(64, '\xff');
  CHECK(tree.examine("RST-2").found == "0000:17:00.0 answers with ones only");
  const auto host = tree.host();
  CHECK_THAT(host.find("0000:17:00.0")->mechanism_reason, virtrain::test::Contains("lost after a reset"));
  // Of a vendor that virtrain does not lend, on a host that has nothing else.
  HostTree laptop("laptop");
  CHECK(laptop.examine("RST-2").status == CheckStatus::skipped);
  std::ofstream(laptop.root / "sys/bus/pci/devices/0000:00:02.0/config") << std::string(64, '\xff');
  // Its model is named where the machine has the list of pci.ids.
  CHECK_THAT(laptop.examine("RST-2").found, virtrain::test::Contains("0000:00:02.0 (Intel ") &&
                                                virtrain::test::Contains(") answers with ones only"));
}

TEST_CASE("of a board whose partitions are not known, those that would fit a VM are told by its size") {
  const auto words = [](const std::vector<std::string>& gpus) {
    HostTree tree("hgx-h200");
    tree.write("usr/share/nvidia/nvswitch/fabricmanager.cfg", "FABRIC_MODE=0");
    std::vector<DeviceGrant> grants;
    for (const auto& gpu : gpus) { grants.push_back({GrantKind::passthrough, gpu}); }
    tree.want(grants);
    return tree.examine("FAB-2").found;
  };
  CHECK_THAT(words({"0000:18:00.0", "0000:30:00.0"}),
             virtrain::test::Contains("a board of 8 has 4 partitions of 2 GPUs, which fmpm -l shows"));
  CHECK_THAT(words({"0000:18:00.0", "0000:30:00.0", "0000:48:00.0"}),
             virtrain::test::Contains("no partition has 3 GPUs"));
}

TEST_CASE("the MTU of a slow port, which carries the host's own traffic, is not judged") {
  HostTree tree("hgx-h200");
  tree.write("sys/bus/pci/devices/0000:79:00.0/net/ens4/mtu", "1500");
  tree.write("sys/bus/pci/devices/0000:79:00.0/infiniband/mlx5_4/ports/1/rate", "25 Gb/sec (1X EDR)");
  CHECK(tree.examine("NET-3").status == CheckStatus::ok);
}

TEST_CASE("a switch whose ports cannot let translated requests through is said to be so") {
  HostTree tree("hgx-h200");
  CHECK(tree.examine("ACS-3").status == CheckStatus::skipped);
  tree.write_config("0000:17:00.0", 0x000d, 0x1d, 0x1f);
  const auto finding = tree.examine("ACS-3");
  CHECK_THAT(finding.found, virtrain::test::Contains("0000:17:00.0 (cannot);"));
  CHECK_THAT(finding.fix, virtrain::test::Contains("NCCL_NET_GDR_LEVEL"));
  tree.write_config("0000:17:00.0", 0x000d, 0x00, 0x1f);  // no redirect, which ACS-1 warns of
  CHECK(tree.examine("ACS-3").status == CheckStatus::skipped);
}

TEST_CASE("reserved pages of 1 GiB are of use only where they are the default") {
  HostTree tree("r750xa");
  tree.write("sys/devices/system/node/node0/hugepages/hugepages-1048576kB/free_hugepages", "9");
  const auto finding = tree.examine("MEM-1");
  CHECK(finding.status == CheckStatus::failed);
  CHECK_THAT(finding.fix, virtrain::test::Contains("default_hugepagesz=1G"));
}

TEST_CASE("the address bits of a VM's CPU and the time that guests have are the plan's") {
  HostTree tree("hgx-h200");
  tree.want({{GrantKind::passthrough, "0000:18:00.0"}});
  tree.plan().boot_timeout_ns = 60'000'000'000;
  CHECK_THAT(tree.examine("VER-3").found, virtrain::test::Contains("boot_timeout is 60 s"));
  tree.write("proc/cpuinfo",
             "processor\t: 0\nflags\t\t: vmx\naddress sizes\t: 52 bits physical, 57 bits virtual");
  CHECK(tree.examine("BAR-1").status == CheckStatus::ok);
  tree.plan().vms[0].address_bits = address_bits_of_named_cpu;
  const auto finding = tree.examine("BAR-1");
  CHECK(finding.status == CheckStatus::failed);
  CHECK(finding.severity == Severity::blocks);
}

TEST_CASE("VMs of no NUMA node need hugepages, too, from whichever node has some") {
  const auto status = [](int pages) {
    HostTree tree("r750xa");
    for (const char* node : {"node0", "node1"}) {
      tree.write(fs::path("sys/devices/system/node") / node / "hugepages/hugepages-2048kB/free_hugepages",
                 std::to_string(pages));
    }
    for (const char* gpu : {gpu_address, other_address}) {
      tree.want({{GrantKind::passthrough, gpu}}, 1ULL << 30);
    }
    tree.plan().hugepages = true;
    const auto finding = tree.examine("MEM-1");
    INFO(finding.found);
    CHECK((finding.status == CheckStatus::ok) ==
          !finding.found.ends_with("of hugepages are free, the VMs need 2GiB"));
    return finding.status;
  };
  CHECK(status(512) == CheckStatus::ok);
  CHECK(status(511) == CheckStatus::failed);
}

TEST_CASE("hosts as they are recorded: what the doctor has against each") {
  const auto against = [](const char* host) {
    std::set<std::string> ids;
    const HostTree tree(host);
    for (const auto& check : device_checks()) {
      if (const auto finding = examine(check, tree.host());
          finding.status == CheckStatus::failed && finding.severity != Severity::warns) {
        ids.insert(finding.id);
      }
    }
    return ids;
  };
  using Ids = std::set<std::string>;
  CHECK(against("r750xa") == Ids{"RDM-1"});    // no nvidia-peermem
  CHECK(against("hgx-h200").empty());          // the persistence daemon is a service that a run stops
  CHECK(against("mdev-host") == Ids{"VG-1"});  // nvidia-vgpu-mgr does not run
  CHECK(against("vendor-vfio-host") == Ids{"LEAK-1"});  // a vGPU that no VM has
  CHECK(against("mig-host") == Ids{"USE-1"});           // a job runs on the second card
  CHECK(against("laptop") == Ids{"IOM-1"});
}

TEST_CASE("what a live run holds is no leak, nor what the administrator keeps so") {
  const auto lend = [](HostTree& tree) {
    tree.write(fs::path(gpu_folder) / "driver_override", "vfio-pci");
    tree.link(fs::path(gpu_folder) / "driver", "../../../../bus/pci/drivers/vfio-pci");
  };
  HostTree lent("r750xa");
  lend(lent);
  CHECK(lent.examine("DRV-2").status == CheckStatus::failed);
  CHECK(lent.examine("LEAK-1").status == CheckStatus::failed);
  lent.leased = {gpu_address};
  CHECK(lent.examine("DRV-2").status == CheckStatus::ok);
  CHECK(lent.examine("LEAK-1").status == CheckStatus::ok);
  lent.leased.clear();
  lent.write("etc/driverctl.d/0000:17:00.0", "vfio-pci");
  CHECK(lent.examine("LEAK-1").status == CheckStatus::ok);
}

TEST_CASE("each kind of leak is named") {
  HostTree cut_off("r750xa");
  cut_off.write(fs::path(gpu_folder) / "driver_override", "vfio-pci");
  CHECK(cut_off.examine("LEAK-1").found ==
        "0000:17:00.0 has driver_override vfio-pci but is on nvidia: its binding was cut off");

  HostTree vgpu("vendor-vfio-host");  // its first virtual function is a vGPU
  CHECK(vgpu.examine("LEAK-1").found == "0000:41:00.4 is a vGPU of type 1153 and no process has it");
  vgpu.link("proc/600/fd/30", "/dev/vfio/12");
  CHECK(vgpu.examine("LEAK-1").status == CheckStatus::ok);

  HostTree mdev("mdev-host");
  const std::string uuid = "aa618089-8b16-4d01-a136-25a0f3c73123";
  const auto parent = "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0";
  fs::create_directories(mdev.root / parent / uuid);
  mdev.link("sys/bus/mdev/devices/" + uuid, "../../../../" + (parent + ("/" + uuid)));
  mdev.link(fs::path(parent) / uuid / "iommu_group", "../../../../../kernel/iommu_groups/90");
  CHECK(mdev.examine("LEAK-1").found ==
        "mediated device " + uuid + " of 0000:3b:00.0 exists and no process has it");
  mdev.link("proc/600/fd/30", "/dev/vfio/90");
  CHECK(mdev.examine("LEAK-1").status == CheckStatus::ok);
  fs::remove(mdev.root / "proc/600/fd/30");
  mdev.write("etc/mdevctl.d/0000:3b:00.0/" + uuid, "{}");
  CHECK(mdev.examine("LEAK-1").status == CheckStatus::ok);
}

TEST_CASE("a plan is judged by the devices that it wants, others do not stop it") {
  HostTree tree("r750xa");
  tree.process(77, "python3");
  tree.link("proc/77/fd/9", "/dev/nvidia2");
  tree.write(fs::path(other_gpu_folder) / "reset_method", "pm");
  CHECK(tree.examine("USE-1").status == CheckStatus::failed);
  CHECK(tree.examine("RST-1").status == CheckStatus::failed);
  tree.want({{GrantKind::passthrough, gpu_address}});
  CHECK(tree.examine("USE-1").status == CheckStatus::ok);
  CHECK(tree.examine("RST-1").status == CheckStatus::ok);
  tree.want({{GrantKind::passthrough, other_address}});
  CHECK(tree.examine("USE-1").status == CheckStatus::failed);
}

TEST_CASE(
    "a plan that resets a device without a reset method, or erases a disk of another driver, is refused") {
  HostTree reset("r750xa");
  DeviceGrant grant{GrantKind::passthrough, gpu_address};
  grant.between_tenants = BetweenTenants::reset;
  reset.want({grant});
  auto finding = reset.examine("CLR-1");
  CHECK(finding.status == CheckStatus::ok);
  CHECK(finding.found == "0000:17:00.0 is reset before each VM that gets it");
  reset.write(fs::path(gpu_folder) / "reset_method", "");
  finding = reset.examine("CLR-1");
  CHECK(blocks(finding));
  CHECK(finding.found == "0000:17:00.0 cannot be reset: it has no reset method");

  HostTree erase("r750xa");
  grant.between_tenants = BetweenTenants::erase;
  erase.write(fs::path(gpu_folder) / "class", "0x010802");
  erase.link(fs::path(gpu_folder) / "driver", "../../../../bus/pci/drivers/vfio-pci");
  erase.want({grant});
  finding = erase.examine("CLR-1");
  CHECK(blocks(finding));
  CHECK_THAT(finding.found, virtrain::test::Contains("it is on vfio-pci (bind it to nvme first)"));
  erase.link(fs::path(gpu_folder) / "driver", "../../../../bus/pci/drivers/nvme");
  CHECK(erase.examine("CLR-1").found == "0000:17:00.0 is overwritten with zeros before each VM that gets it");
  DeviceGrant part = grant;
  part.kind = GrantKind::virtual_function;
  HostTree parts("r750xa");
  parts.write(fs::path(gpu_folder) / "class", "0x010802");
  parts.want({part});
  CHECK(blocks(parts.examine("CLR-1")));
}

TEST_CASE("a shared group is refused by half, and fine as a whole in one VM") {
  const auto share = [](HostTree& tree) {
    tree.link("sys/kernel/iommu_groups/21/devices/0000:b1:00.0", "x");
  };
  HostTree apart("r750xa");
  share(apart);
  apart.want({{GrantKind::passthrough, gpu_address}});
  apart.want({{GrantKind::passthrough, other_address}});
  CHECK(apart.examine("IOM-2").status == CheckStatus::failed);
  HostTree together("r750xa");
  share(together);
  together.want({{GrantKind::passthrough, gpu_address}, {GrantKind::passthrough, other_address}});
  CHECK(together.examine("IOM-2").status == CheckStatus::ok);
}

TEST_CASE("a device of any class that a plan names is judged like a GPU, but may reset by pm") {
  HostTree tree("r750xa");
  const fs::path disk = "sys/devices/pci0000:00/0000:00:12.0";
  for (const auto& [file, text] : std::map<std::string, std::string>{{"vendor", "0x8086"},
                                                                     {"device", "0x10d3"},
                                                                     {"class", "0x020000"},
                                                                     {"reset_method", "pm"},
                                                                     {"power_state", "D0"}}) {
    tree.write(disk / file, text);
  }
  tree.link(disk / "driver", "../../../bus/pci/drivers/e1000e");
  tree.link(disk / "iommu_group", "../../../kernel/iommu_groups/90");
  tree.link("sys/kernel/iommu_groups/90/devices/0000:00:12.0", "../../../../devices/pci0000:00/0000:00:12.0");
  tree.link("sys/bus/pci/devices/0000:00:12.0", "../../../devices/pci0000:00/0000:00:12.0");
  tree.want({{GrantKind::passthrough, "0000:00:12.0"}}, 1ULL << 30);
  REQUIRE(tree.host().devices().size() == 1);
  for (const auto& check : device_checks()) {
    const auto finding = examine(check, tree.host());
    INFO(finding.id << " " << finding.found);
    CHECK_FALSE(blocks(finding));
  }
  CHECK(tree.examine("RST-1").severity == Severity::warns);
  tree.link("sys/kernel/iommu_groups/90/devices/0000:00:1f.0", "x");
  CHECK(tree.examine("IOM-2").status == CheckStatus::failed);
}

TEST_CASE("KVM stops plans with devices, and without any VMs run emulated") {
  const auto refused = writes("var/lib/virtrain/kvm.json", R"({"open_error": 13})");
  HostTree lends("r750xa");
  refused(lends);
  CHECK(lends.examine("KVM-1").severity == Severity::blocks);
  CHECK(lends.examine("KVM-2").severity == Severity::blocks);
  HostTree laptop("laptop");
  refused(laptop);
  CHECK(laptop.examine("KVM-1").severity == Severity::warns);
  writes("var/lib/virtrain/kvm.json", R"({"open_error": 2})")(laptop);
  CHECK(laptop.examine("KVM-1").found == "/dev/kvm does not open (No such file or directory)");
  writes("var/lib/virtrain/kvm.json",
         R"({"api_version": 12, "reason": "a probe guest ended: failed to set MSR 0x10a to 0x69"})")(laptop);
  CHECK_THAT(laptop.examine("KVM-2").fix, virtrain::test::Contains("arch-capabilities"));
}

TEST_CASE("what CPUs do besides their clocks is said, and so are overcommit and a card that plays sound") {
  HostTree tree("r750xa");
  writes("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance")(tree);
  writes("sys/devices/system/cpu/smt/active", "1")(tree);
  for (const auto& [state, disabled] : std::map<std::string, std::string>{{"state1", "0"}, {"state2", "1"}}) {
    const fs::path folder = fs::path("sys/devices/system/cpu/cpu0/cpuidle") / state;
    writes(folder / "name", state == "state1" ? "C1" : "C6")(tree);
    writes(folder / "disable", disabled)(tree);
  }
  CHECK(tree.examine("CPU-1").found == "governor performance, turbo off; SMT is on; idle cores sleep to C1");
  CHECK(tree.examine("CPU-1").status == CheckStatus::ok);
  writes("sys/devices/system/cpu/cpufreq/boost", "1")(tree);
  CHECK(tree.examine("CPU-1").status == CheckStatus::failed);

  writes("proc/sys/vm/overcommit_memory", "0")(tree);
  CHECK(tree.examine("MEM-4").status == CheckStatus::ok);
  writes("proc/sys/vm/overcommit_memory", "1")(tree);
  CHECK_THAT(tree.examine("MEM-4").found, virtrain::test::Contains("overcommit"));

  tree.link("sys/kernel/iommu_groups/21/devices/0000:17:00.1", "x");
  tree.link("sys/bus/pci/devices/0000:17:00.1/driver", "../../../bus/pci/drivers/snd_hda_intel");
  CHECK(tree.examine("DRV-4").found == "0000:17:00.0 has its audio function 0000:17:00.1 on snd_hda_intel");
  CHECK(tree.examine("DRV-4").severity == Severity::warns);
}

TEST_CASE("severity follows what is wanted") {
  HostTree tree("r750xa");
  tree.write_config(bridge_address, 0x000d, 0);
  CHECK(tree.examine("ACS-1").severity == Severity::warns);
  tree.want({{GrantKind::passthrough, gpu_address}});
  CHECK(tree.examine("ACS-1").severity == Severity::warns);
  tree.plan().several_tenants = true;
  CHECK(tree.examine("ACS-1").severity == Severity::invalidates);

  const HostTree bare("r750xa");
  CHECK(bare.examine("MEM-1").severity == Severity::warns);
  CHECK(bare.examine("FW-1").severity == Severity::warns);
}

TEST_CASE("a confidential guest takes KVM's word, and the versions that can start it") {
  HostTree tree("r750xa");
  CHECK(tree.examine("CVM-1").status == CheckStatus::skipped);
  tree.plan().memory_encryption = MemoryEncryption::bounce;
  CHECK(tree.examine("CVM-1").status == CheckStatus::skipped);
  tree.plan().memory_encryption = MemoryEncryption::tdx;
  tree.write("sys/module/kvm_intel/parameters/tdx", "Y");
  tree.write("proc/sys/kernel/osrelease", "6.15.0-amd64");
  tree.write("var/lib/virtrain/qemu-version.txt", "QEMU emulator version 10.0.2");
  tree.write("var/lib/virtrain/libvirtd-version.txt", "libvirtd (libvirt) 11.3.0");
  const auto old = tree.examine("CVM-1");
  CHECK(old.status == CheckStatus::failed);
  CHECK_THAT(old.found, virtrain::test::Contains("Linux 6.15.0-amd64 is older than 6.16") &&
                            virtrain::test::Contains("older than 10.1") &&
                            virtrain::test::Contains("libvirt 11.3.0 is older than 11.4"));
  tree.write("proc/sys/kernel/osrelease", "6.16.0-amd64");
  tree.write("var/lib/virtrain/qemu-version.txt", "QEMU emulator version 10.1.0");
  tree.write("var/lib/virtrain/libvirtd-version.txt", "libvirtd (libvirt) 12.1.0");
  CHECK(tree.examine("CVM-1").status == CheckStatus::ok);
}

TEST_CASE("a card's scheduler is known where the scenario sets it, whatever the kernel's log has lost") {
  HostTree tree("vendor-vfio-host");
  tree.log("[ 5.0] nothing of the sort");
  tree.want({{GrantKind::vendor_vfio, "0000:41:00.5", "0000:41:00.0", "1153"}});
  CHECK(tree.examine("VG-6").status == CheckStatus::failed);
  tree.plan().vgpu_scheduler = VgpuScheduler::equal_share;
  const auto finding = tree.examine("VG-6");
  CHECK(finding.status == CheckStatus::ok);
  CHECK(finding.found == "the scenario sets equal_share");
}

TEST_CASE("a plan without devices is stopped by no check of devices but that of the IOMMU") {
  HostTree tree("laptop");
  tree.plan().vms.push_back({{}, 1ULL << 30, std::nullopt});
  for (const auto& check : device_checks()) {
    if (blocks(examine(check, tree.host()))) { CHECK(std::string(check.id) == "IOM-1"); }
  }
}

}  // namespace
}  // namespace virtrain::vmctl
