#include "harness/rules/uniformity.h"

#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

/// Everything that a host says of itself.
HostFacts facts_of(const std::string& host) {
  return {{"hostname", host},
          {"boot_id", "boot of " + host},
          {"kernel", "6.1.0-32-amd64"},
          {"cpu_model", "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz"},
          {"cpu_flags", "fpu vmx avx512f"},
          {"microcode", "0xd0003a5"},
          {"mitigations", "spectre_v2=Mitigation: Enhanced IBRS"},
          {"bios", "1.13.2"},
          {"product", "PowerEdge R750xa"},
          {"governor", "performance"},
          {"smt", "on"},
          {"command_line", "quiet intel_iommu=on"},
          {"libvirt", "9.0.0"},
          {"qemu", "7.2.13"},
          {"open_mpi", "4.1.4"},
          {"driver", "580.65.06"},
          {"vgpu_scheduler", "best effort"},
          {"gpu_uuid", "GPU-" + host},
          {"gpu_name", "NVIDIA A100-PCIE-40GB"},
          {"vbios", "92.00.25.00.08"},
          {"clocks", "1410 MHz"},
          {"power_limit", "250 W"},
          {"trainer_build", "0.2.0 4f2c"},
          {"network_mtu", "1450"},
          {"network_driver", "mlx5_core"},
          {"network_firmware", "20.35.1012"},
          {"network_link_speed", "100000 Mb/s"}};
}

ByHost<HostFacts> four_hosts() {
  ByHost<HostFacts> facts;
  for (const auto* host : {"gpu-a", "gpu-b", "gpu-c", "gpu-d"}) { facts[host] = facts_of(host); }
  return facts;
}

TEST_CASE("hosts that are alike differ in nothing but what each has of its own") {
  CHECK(differences_of(four_hosts()).empty());
  CHECK(differences_of({{"", facts_of("alone")}}).empty());
  CHECK(common_facts(four_hosts()).count("hosts_differ") == 0);
  CHECK(common_facts(four_hosts()).count("boot_id") == 0);
  CHECK(common_facts({{"", facts_of("alone")}}) == facts_of("alone"));
}

TEST_CASE("each planted difference is named with its host and its field") {
  const std::vector<std::pair<std::string, std::string>> planted{
      {"kernel", "6.1.0-33-amd64"},
      {"cpu_model", "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz"},
      {"cpu_flags", "fpu vmx"},
      {"microcode", "0xd000390"},
      {"mitigations", "spectre_v2=Vulnerable"},
      {"bios", "1.12.0"},
      {"product", "PowerEdge R760xa"},
      {"governor", "powersave"},
      {"smt", "off"},
      {"command_line", "quiet"},
      {"libvirt", "11.3.0"},
      {"qemu", "10.0.2"},
      {"open_mpi", "5.0.7"},
      {"driver", "570.86.15"},
      {"vgpu_scheduler", "fixed share"},
      {"gpu_name", "NVIDIA A100-SXM4-40GB"},
      {"vbios", "92.00.25.00.01"},
      {"clocks", "1275 MHz"},
      {"power_limit", "200 W"},
      {"trainer_build", "0.2.0 91ab"},
      {"network_mtu", "8950"},
      {"network_driver", "ice"},
      {"network_firmware", "20.31.2006"},
      {"network_link_speed", ""}};
  for (const auto& [field, value] : planted) {
    for (const auto* host : {"gpu-a", "gpu-c"}) {
      auto facts = four_hosts();
      const auto usual = facts[host][field];
      if (value.empty()) {
        facts[host].erase(field);
      } else {
        facts[host][field] = value;
      }
      INFO(field << " of " << host);
      CHECK(differences_of(facts) == std::vector<HostDifference>{{field, host, value, usual}});
      CHECK(common_facts(facts).at("hosts_differ") == field);
      CHECK(common_facts(facts).count(field) == 0);
    }
  }
}

TEST_CASE("where as many hosts say the one as the other, the first speaks for them") {
  auto facts = four_hosts();
  facts["gpu-b"]["driver"] = facts["gpu-d"]["driver"] = "570.86.15";
  facts["gpu-c"]["kernel"] = "6.12.48";
  const auto differences = differences_of(facts);
  REQUIRE(differences.size() == 3);
  CHECK(to_sentence(differences[0]) == "gpu-b: driver is 570.86.15, elsewhere 580.65.06");
  CHECK(to_sentence(differences[2]) == "gpu-c: kernel is 6.12.48, elsewhere 6.1.0-32-amd64");
  CHECK(common_facts(facts).at("hosts_differ") == "driver, kernel");
}

}  // namespace
