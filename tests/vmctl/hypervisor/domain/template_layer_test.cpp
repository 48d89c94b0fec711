// Domain XML of a user's own: what of it a VM keeps, and what is refused by its name and position.

#include <random>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/domain_schema.h"
#include "vmctl/api/domain_template.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {
namespace {

using test::Contains;

constexpr TemplateSize two_vcpus{2, 2ULL << 30};

// As virsh dumpxml prints a VM of a cloud, without what names parts of its host.
constexpr const char* cloud_vm = R"(<domain type='kvm' id='7'>
  <name>instance-0000001c</name>
  <uuid>5f0c6f6c-3f0e-4c8b-8a52-1f3c1c6c4b11</uuid>
  <metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'><nova:flavor/></nova:instance></metadata>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='MiB'>2048</currentMemory>
  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
  <vcpu placement='static'>2</vcpu>
  <os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>
  <features>
    <acpi/>
    <apic eoi='on'/>
    <kvm><hidden state='on'/></kvm>
    <pmu state='off'/>
  </features>
  <cpu mode='custom' match='exact' check='none'>
    <model fallback='forbid'>qemu64</model>
    <topology sockets='2' cores='1' threads='1'/>
    <feature policy='require' name='x2apic'/>
  </cpu>
  <clock offset='utc'>
    <timer name='pit' tickpolicy='delay'/>
    <timer name='hpet' present='no'/>
  </clock>
  <on_crash>preserve</on_crash>
  <pm><suspend-to-mem enabled='no'/></pm>
  <devices>
    <controller type='usb' index='0' model='qemu-xhci'/>
    <input type='tablet' bus='usb'/>
    <video><model type='vga' vram='16384' heads='1' primary='yes'/></video>
    <memballoon model='virtio'><stats period='10'/></memballoon>
    <watchdog model='i6300esb' action='reset'/>
  </devices>
</domain>
)";

std::string template_refusal(const std::string& xml) {
  try {
    read_domain_template(xml, two_vcpus);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.message();
  }
  return "(accepted)";
}

DomainSpec of_two_vcpus() {
  DomainSpec spec;
  spec.name = "virtrain-e1-1";
  spec.uuid = "6a0e7b53-5f34-4d4b-8e07-0c8d7c4c3d11";
  spec.mark = {"e1", "t1n1"};
  spec.vcpus = 2;
  spec.memory_bytes = 2ULL << 30;
  spec.kernel = "/var/cache/virtrain/images/abc/kernel";
  spec.initrd = "/var/cache/virtrain/images/abc/initrd";
  spec.root_image = "/var/cache/virtrain/images/abc/root";
  spec.nics = {{NicKind::network, "virtrain-e1-a", "52:54:00:77:00:11", "vtap1"}};
  spec.console_log = "/var/lib/virtrain/logs/e1/a1.console";
  spec.domain_template = read_domain_template(cloud_vm, two_vcpus);
  return spec;
}

TEST_CASE("a VM is made from a template, with our name, disks, network, channel and mark") {
  const auto text = domain_xml(of_two_vcpus());
  check_golden("domain-template.xml", text);
  check_schema("domain", text);
  CHECK(text.find("instance-0000001c") == std::string::npos);
  CHECK(read_lease_mark(text) == LeaseMark{"e1", "t1n1"});
}

TEST_CASE("NUMA cells of the plan stay below a template's processor") {
  auto spec = of_two_vcpus();
  spec.numa_cells = {{0, {0}, 1ULL << 30}, {1, {1}, 1ULL << 30}};
  const auto text = domain_xml(spec);
  check_schema("domain", text);
  CHECK_THAT(text, Contains("<cell id=\"1\"") && Contains("qemu64"));
}

TEST_CASE("a template that has travelled is the same one, and no other text is") {
  const auto text = read_domain_template(cloud_vm, two_vcpus);
  CHECK(is_domain_template(text));
  CHECK(is_domain_template(""));
  CHECK_FALSE(is_domain_template(cloud_vm));
  CHECK_FALSE(is_domain_template("<domain><devices><emulator>/bin/sh</emulator></devices></domain>"));
  CHECK_FALSE(is_domain_template("<domain><name>virtrain-e1-1</name></domain>"));
  auto spec = of_two_vcpus();
  spec.domain_template = "<domain><qemu:commandline/></domain>";
  CHECK_THROWS_AS(domain_xml(spec), Error);
}

TEST_CASE("what could name a part of the host is refused by its name and position") {
  const auto in_domain = [](const std::string& inner) {
    return template_refusal("<domain type='kvm'>\n  " + inner + "\n</domain>");
  };
  const auto in_devices = [&](const std::string& inner) {
    return in_domain("<devices>" + inner + "</devices>");
  };
  CHECK_THAT(in_devices("<emulator>/tmp/x</emulator>"),
             Contains("2:12: <emulator>: a template may not have it (it names a program of the host)"));
  CHECK_THAT(in_domain("<qemu:commandline xmlns:qemu='x'><qemu:arg value='-s'/></qemu:commandline>"),
             Contains("2:3: <qemu:commandline>: a template may not have it"));
  for (const char* device :
       {"<disk type='file'><source file='/etc/shadow'/></disk>",
        "<filesystem type='mount'/>",
        "<hostdev mode='subsystem' type='pci'/>",
        "<serial type='file'><source path='/etc/passwd'/></serial>",
        "<console type='pty'/>",
        "<channel type='unix'/>",
        "<interface type='direct'/>",
        "<graphics type='vnc'/>",
        "<rng model='virtio'><backend model='random'>/dev/sda</backend></rng>",
        "<shmem name='x'/>",
        "<tpm model='tpm-tis'/>",
        "<vsock model='virtio'/>",
        "<parallel type='dev'/>",
        "<redirdev bus='usb'/>",
        "<smartcard mode='host'/>",
        "<sound model='ich9'/>",
        "<memory model='nvdimm'/>",
        "<crypto model='virtio'/>",
        "<controller type='scsi' index='0'/>",
        "<watchdog model='itco' action='dump'/>",
        "<video><driver name='vga'/></video>",
        "<video><model type='vga' blob='/x'/></video>",
        "<input type='passthrough' bus='virtio'><source evdev='/dev/input/event1'/></input>",
        "<memballoon model='virtio'><address type='pci'/></memballoon>"}) {
    CAPTURE(device);
    CHECK_THAT(in_devices(device), Contains("2:"));
  }
  for (const char* part : {"<os><loader readonly='yes'>/x</loader></os>",
                           "<os><nvram>/x</nvram></os>",
                           "<os><boot dev='hd'/></os>",
                           "<os><kernel>/x</kernel></os>",
                           "<cputune/>",
                           "<numatune/>",
                           "<seclabel type='none'/>",
                           "<launchSecurity type='sev'/>",
                           "<memoryBacking><locked/></memoryBacking>",
                           "<memoryBacking><hugepages/></memoryBacking>",
                           "<memoryBacking><source type='file'/></memoryBacking>",
                           "<cpu><numa/></cpu>",
                           "<resource><partition>/x</partition></resource>",
                           "<iothreads>2</iothreads>",
                           "<sysinfo type='smbios'/>",
                           "<keywrap/>",
                           "<bootloader>/bin/sh</bootloader>",
                           "<genid/>",
                           "<os><type machine='pc-i440fx-7.2'>hvm</type></os>",
                           "<vcpu>4</vcpu>",
                           "<memory unit='GiB'>4</memory>",
                           "<memory unit='KiB'>-1</memory>",
                           "<cpu><topology cores='4'/></cpu>",
                           "<features><hyperv><vendor_id state='on' value='../x'/></hyperv></features>"}) {
    CAPTURE(part);
    CHECK_THAT(in_domain(part), Contains("2:"));
  }
  CHECK_THAT(in_domain("words"), Contains("text is not allowed here"));
  CHECK_THAT(template_refusal("<network/>"), Contains("1:1: <network>: a template is one <domain>"));
  CHECK_THAT(template_refusal("<domain>"), Contains("it is not XML"));
  CHECK_THAT(template_refusal(""), Contains("1:1: it is not XML"));
  CHECK_THAT(template_refusal("<domain/><domain/>"), Contains("a template is one <domain>"));
}

TEST_CASE("a mutated template is refused, or names no part of the host") {
  std::mt19937 random(46);  // NOLINT: the same ones each time
  const std::vector<std::string> pieces{"<emulator>/bin/sh</emulator>",
                                        "<!-- -->",
                                        "<![CDATA[/etc]]>",
                                        "/dev/sda",
                                        "<cpu>",
                                        "</cpu>",
                                        "<disk/>",
                                        "&#47;",
                                        "&lt;",
                                        "='",
                                        "path='/x'",
                                        "<serial type='file'>",
                                        "<model>a<!-- -->/x</model>",
                                        "<?pi?>",
                                        "]]>",
                                        "<!DOCTYPE x [<!ENTITY e '/x'>]>"};
  int kept = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string xml = cloud_vm;
    for (auto changes = random() % 3 + 1; changes > 0; --changes) {
      const auto at = random() % xml.size();
      if (random() % 2 == 0) {
        xml.erase(at, random() % 20);
      } else {
        xml.insert(at, pieces[random() % pieces.size()]);
      }
    }
    try {
      const auto text = read_domain_template(xml, two_vcpus);
      ++kept;
      CAPTURE(xml);
      CHECK(is_domain_template(text));
      for (auto slash = text.find('/'); slash != std::string::npos; slash = text.find('/', slash + 1)) {
        CHECK((text[slash - 1] == '<' || text[slash + 1] == '>'));
      }
    } catch (const Error& error) { CHECK(error.code() == ErrorCode::bad_input); }
  }
  CHECK(kept > 0);
}

}  // namespace
}  // namespace virtrain::vmctl
