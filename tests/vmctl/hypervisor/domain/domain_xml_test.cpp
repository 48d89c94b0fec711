#include "vmctl/hypervisor/domain/domain_xml.h"

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/domain_schema.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"

namespace virtrain::vmctl {
namespace {

using namespace std::chrono_literals;

DomainSpec emulated() {
  DomainSpec spec;
  spec.name = "virtrain-e1-1";
  spec.uuid = "6a0e7b53-5f34-4d4b-8e07-0c8d7c4c3d11";
  spec.mark = {"e1", "tenant-a/1"};
  spec.memory_bytes = 512ULL << 20;
  spec.virtualization = Virtualization::tcg;
  spec.kernel = "/var/cache/virtrain/images/abc/kernel";
  spec.initrd = "/var/cache/virtrain/images/abc/initrd";
  spec.root_image = "/var/cache/virtrain/images/abc/root";
  spec.kernel_command_line = guest_command_line({"a1", "10.77.0.11/24", {{"a1", "10.77.0.11"}}});
  spec.nics = {{NicKind::network, "virtrain-e1-a", "52:54:00:77:00:11", "vtap1"}};
  spec.console_log = "/var/lib/virtrain/logs/e1/a1.console";
  return spec;
}

DomainSpec pinned() {
  DomainSpec spec = emulated();
  spec.name = "virtrain-e1-2";
  spec.vcpus = 4;
  spec.memory_bytes = 64ULL << 30;
  spec.virtualization = Virtualization::kvm;
  spec.vcpu_cores = {2, 3, 4, 5};
  spec.emulator_cores = {0, 1, 8};
  spec.numa_node = 1;
  spec.hugepages = true;
  spec.nics = {{NicKind::network, "virtrain-e1-b", "52:54:00:77:00:12", ""},
               {NicKind::network, "virtrain-e1-a", "", ""}};
  return spec;
}

TEST_CASE("domain XML of an emulated guest") {
  const auto text = domain_xml(emulated());
  check_golden("domain-emulated.xml", text);
  check_schema("domain", text);
}

TEST_CASE("domain XML of a pinned KVM guest with huge pages") {
  const auto text = domain_xml(pinned());
  check_golden("domain-pinned.xml", text);
  check_schema("domain", text);
}

TEST_CASE("domain XML of a guest that bounces what its devices read and write, with a NIC of its own kind") {
  auto spec = emulated();
  spec.memory_encryption = MemoryEncryption::bounce;
  spec.nics[0].settings = {true, 4, {}};
  const auto text = domain_xml(spec);
  check_golden("domain-bounce.xml", text);
  check_schema("domain", text);
  spec.nics = {{NicKind::multicast, "", "52:54:00:77:00:11", "", 23456}};
  CHECK(domain_xml(spec).find(",iommu_platform=on,ats=on") != std::string::npos);
  spec = emulated();
  spec.nics[0].settings.vhost = false;
  CHECK(domain_xml(spec).find("<driver name=\"qemu\" />") != std::string::npos);
}

/// Not against the schema: that of Debian 12's libvirt knows neither, that of Debian 13's the first, which it
/// accepts.
TEST_CASE("domain XML of AMD's and Intel's confidential guests, which only KVM starts") {
  auto spec = pinned();
  spec.memory_encryption = MemoryEncryption::sev_snp;
  check_golden("domain-sev-snp.xml", domain_xml(spec));
  spec.memory_encryption = MemoryEncryption::tdx;
  check_golden("domain-tdx.xml", domain_xml(spec));
  spec = emulated();
  spec.memory_encryption = MemoryEncryption::tdx;
  CHECK_THROWS_WITH(domain_xml(spec), virtrain::test::Contains("under KVM only"));
}

TEST_CASE("domain XML of a guest with a CPU model, siblings for its vCPUs and an MTU") {
  auto spec = pinned();
  spec.cpu_model = "Skylake-Server-IBRS";
  spec.threads_per_core = 2;
  for (auto& nic : spec.nics) { nic.settings.mtu = 9000; }
  const auto text = domain_xml(spec);
  check_golden("domain-cpu-model.xml", text);
  check_schema("domain", text);
  spec = emulated();
  spec.cpu_model = "qemu64";
  spec.threads_per_core = 2;  // of one vCPU there are no two threads
  const auto small = domain_xml(spec);
  CHECK(small.find("check=\"none\"") != std::string::npos);
  CHECK(small.find("threads=\"1\"") != std::string::npos);
}

TEST_CASE("domain XML of a guest with limits") {
  auto spec = pinned();
  spec.devices = {};
  spec.limits.cpu_cores = 1.5;
  spec.limits.disk_read = 100ULL << 20;
  spec.limits.disk_write_iops = 500;
  spec.limits.network_in = 100'000'000;
  spec.limits.network_out = 50'000;
  const auto text = domain_xml(spec);
  check_golden("domain-limits.xml", text);
  check_schema("domain", text);
  // Of 100 ms in all vCPUs together; tc's kbps are thousands of bytes, and a burst takes a whole frame.
  CHECK(text.find("<global_quota>150000</global_quota>") != std::string::npos);
  CHECK(text.find("<inbound average=\"100000\" burst=\"10000\" />") != std::string::npos);
  CHECK(text.find("<outbound average=\"50\" burst=\"64\" />") != std::string::npos);
  spec = emulated();
  spec.limits.cpu_cores = 0.001;  // the kernel's least
  CHECK(domain_xml(spec).find("<global_quota>1000</global_quota>") != std::string::npos);
}

TEST_CASE("a planted channel is a port that leads nowhere") {
  auto spec = emulated();
  spec.planted_channel = "org.virtrain.planted.t2n1";
  const auto text = domain_xml(spec);
  check_schema("domain", text);
  CHECK(text.find("<channel type=\"null\">") != std::string::npos);
  CHECK(text.find("<target type=\"virtio\" name=\"org.virtrain.planted.t2n1\" />") != std::string::npos);
}

TEST_CASE("a payload is a read-only disk with a serial number, whose file nobody relabels") {
  auto spec = emulated();
  spec.payload = "/var/cache/virtrain/images/0123/disk";
  const auto text = domain_xml(spec);
  check_golden("domain-payload.xml", text);
  check_schema("domain", text);
  spec.scratch = ScratchDisk{"/s.disk"};
  spec.boot_disk = BootDisk{"/o.qcow2", "/base.img", "qcow2", "/seed.iso"};
  spec.kernel_command_line.clear();
  const auto cloud = domain_xml(spec);
  check_schema("domain", cloud);
  CHECK(cloud.find("<target dev=\"vde\" bus=\"virtio\" />") != std::string::npos);
  spec.in_session = true;
  CHECK(domain_xml(spec).find("seclabel") == std::string::npos);
}

TEST_CASE("a disk for loads writes through to the host's, within the limits of the node's disks") {
  auto spec = emulated();
  spec.limits.disk_write = 16ULL << 20;
  spec.scratch = ScratchDisk{"/var/lib/virtrain/logs/e1/virtrain-e1-2.disk"};
  const auto text = domain_xml(spec);
  check_golden("domain-scratch.xml", text);
  check_schema("domain", text);
  CHECK(text.find("<target dev=\"vdb\" bus=\"virtio\" />") != std::string::npos);
  spec.scratch->past_page_cache = false;
  CHECK(domain_xml(spec).find("cache=\"writeback\" error_policy=\"report\"") != std::string::npos);
  spec.boot_disk = BootDisk{"/o.qcow2", "/base.img", "qcow2", "/seed.iso"};
  const auto cloud = domain_xml(spec);
  check_schema("domain", cloud);
  CHECK(cloud.find("<target dev=\"vdd\" bus=\"virtio\" />") != std::string::npos);
}

TEST_CASE(
    "without privileges a NIC is a tap of the user's, or a multicast group that stays on the loopback "
    "device") {
  auto spec = emulated();
  spec.nics = {{NicKind::tap, "", "52:54:00:77:00:11", "vttabc1"}};
  const auto tap = domain_xml(spec);
  CHECK(tap.find("<interface type=\"ethernet\">") != std::string::npos);
  CHECK(tap.find("<target dev=\"vttabc1\" managed=\"no\" />") != std::string::npos);
  spec.nics = {{NicKind::multicast, "", "52:54:00:77:00:11", "", 23456}};
  const auto multicast = domain_xml(spec);
  CHECK(multicast.find("<interface") == std::string::npos);  // libvirt's own would leave the host
  CHECK(multicast.find("mcast=239.255.118.116:23456,localaddr=127.0.0.1") != std::string::npos);
  CHECK(multicast.find("mac=52:54:00:77:00:11,host_mtu=60000") != std::string::npos);
  CHECK(multicast.find("xmlns:qemu=\"http://libvirt.org/schemas/domain/qemu/1.0\"") != std::string::npos);
}

TEST_CASE("a guest whose memory is pinned for its devices may take longer to start") {
  DomainSpec spec = emulated();
  spec.memory_bytes = 450ULL << 30;
  CHECK(create_deadline({}, spec) == 150s);
  spec.devices.resize(1);
  CHECK(create_deadline({}, spec) == 150s + 5 * 30s);
  spec.hugepages = true;
  CHECK(create_deadline({}, spec) == 150s);
}

TEST_CASE("network XML") {
  const NetworkSpec spec{"virtrain-e1-a", "vte1a", {"e1", "tenant-a"}};
  check_golden("network.xml", network_xml(spec));
  check_schema("network", network_xml(spec));
}

TEST_CASE("names with XML's own characters stay what they are") {
  auto spec = emulated();
  spec.mark = {"a<b>&\"c'", "n"};
  const auto text = domain_xml(spec);
  check_schema("domain", text);
  CHECK(read_lease_mark(text) == LeaseMark{"a<b>&\"c'", "n"});
}

TEST_CASE("the mark is read back, also under another prefix, and only from our namespace") {
  CHECK(read_lease_mark(domain_xml(emulated())) == LeaseMark{"e1", "tenant-a/1"});
  CHECK(
      read_lease_mark("<domain><metadata><x:lease xmlns:x='https://virtrain.dev/1' experiment='e' node='n'/>"
                      "</metadata></domain>") == LeaseMark{"e", "n"});
  CHECK_FALSE(read_lease_mark(
      "<domain><metadata><x:lease xmlns:x='https://other/1' experiment='e'/></metadata></domain>"));
  CHECK_FALSE(read_lease_mark("<domain><name>virtrain-e1-1</name></domain>"));
  CHECK_FALSE(read_lease_mark("not xml"));
}

TEST_CASE("specs that contradict themselves are refused") {
  const auto refused = [](auto change) {
    auto spec = emulated();
    change(spec);
    try {
      domain_xml(spec);
      return false;
    } catch (const Error& error) { return error.code() == ErrorCode::bad_input; }
  };
  CHECK(refused([](DomainSpec& s) { s.name.clear(); }));
  CHECK(refused([](DomainSpec& s) { s.vcpus = 0; }));
  CHECK(refused([](DomainSpec& s) { s.memory_bytes = 1 << 20; }));
  CHECK(refused([](DomainSpec& s) { s.vcpu_cores = {0, 1}; }));
  CHECK(refused([](DomainSpec& s) { s.virtualization = Virtualization::none; }));
  CHECK(refused([](DomainSpec& s) { s.nics[0].source.clear(); }));
  CHECK(refused([](DomainSpec& s) { s.nics[0] = {NicKind::tap, "", "52:54:00:77:00:11", ""}; }));
  CHECK(refused([](DomainSpec& s) { s.nics[0] = {NicKind::multicast, "", "52:54:00:77:00:11", "", 80}; }));
  CHECK(refused([](DomainSpec& s) { s.nics[0].tap = "vt-sixteen-chars"; }));
  CHECK_FALSE(refused([](DomainSpec&) {}));
  CHECK_THROWS_AS(network_xml({"n", "vt-sixteen-chars", {}}), Error);
}

TEST_CASE("kernel command line of a guest") {
  CHECK(guest_command_line({"a1", "10.77.0.11/24", {{"a1", "10.77.0.11"}, {"a2", "10.77.0.12"}}}) ==
        "root=/dev/vda console=ttyS0 panic=-1 quiet vt.host=a1 vt.ip=10.77.0.11/24 "
        "vt.hosts=a1:10.77.0.11,a2:10.77.0.12");
  CHECK(guest_command_line({"a1", "", {}, true}).ends_with(" vt.host=a1 vt.payload"));
  CHECK_THROWS_AS(guest_command_line({"a 1", "", {}}), Error);
  CHECK_THROWS_AS(guest_command_line({"a1", "", {{"b,c", "10.0.0.1"}}}), Error);
  GuestBoot many{"a1", "", {}};
  for (int i = 0; i < 200; ++i) { many.hosts.push_back({"a" + std::to_string(i), "10.77.0.1"}); }
  CHECK_THROWS_AS(guest_command_line(many), Error);
}

}  // namespace
}  // namespace virtrain::vmctl
