#include "harness/hosts/anonymous.h"

#include "tests/support/catch.h"

namespace virtrain::harness {

TEST_CASE("what tells whose machine it is becomes something else, the same everywhere") {
  Anonymiser anonymous("gpu7.example.org");
  CHECK(anonymous.content("proc/sys/kernel/hostname", "gpu7.example.org\n") == "host\n");
  const std::string uuid = "6c0f6e2a-1234-4abc-8def-0123456789ab";
  const auto first = anonymous.content("proc/sys/kernel/random/boot_id", uuid);
  CHECK(first == "00000000-0000-4000-8000-000000000001");
  CHECK(anonymous.content("proc/driver/nvidia/gpus/0000:17:00.0/information",
                          "GPU UUID: \t GPU-" + uuid + "\n") == "GPU UUID: \t GPU-" + first + "\n");
  CHECK(anonymous.content("proc/x", "7c0f6e2a-1234-4abc-8def-0123456789ab") != first);
  const auto log = anonymous.content(
      "var/lib/virtrain/dmesg.txt",
      "[1.0] usb 1-1: SerialNumber: SECRET\n"
      "[2.0] NVRM: on gpu7: GPU at 0000:17:00.0 of 10.1.2.3, fe80::1, 52:54:00:aa:bb:cc.\n");
  CHECK(log == "[2.0] NVRM: on host: GPU at 0000:17:00.0 of 192.0.2.2, 2001:db8::1, 02:00:00:00:00:01.\n");
  CHECK(anonymous.content("proc/cmdline",
                          "root=/dev/mapper/gpu7-root ip=10.1.2.3 iommu=pt hugepages=64 quiet\n") ==
        "iommu=pt hugepages=64 quiet\n");
  CHECK(anonymous.content("etc/modprobe.d/vfio.conf", "# by alice\noptions vfio-pci ids=10de:20b5\n") ==
        "options vfio-pci ids=10de:20b5\n");
  CHECK(anonymous
            .content("var/lib/virtrain/nvidia-smi-query.xml",
                     "<gpu><serial>1322</serial><process_name>/home/alice/a</process_name></gpu>\n")
            .find("alice") == std::string::npos);
  CHECK(anonymous.path("sys/devices/x/net/enx525400aabbcc/mtu") == "sys/devices/x/net/enx020000000001/mtu");
}

TEST_CASE("what checks read stays as it is") {
  Anonymiser anonymous("node");
  for (const auto* text :
       {"Node 0 MemTotal:  64 kB", "0000:17:00.0", "16.0 GT/s PCIe", "535.129.03", "0-31,64-95"}) {
    CHECK(anonymous.content("sys/devices/system/node/node0/meminfo", text) == text);
  }
  CHECK(anonymous.path("sys/devices/pci0000:16/0000:16:02.0") == "sys/devices/pci0000:16/0000:16:02.0");
}

TEST_CASE("serial numbers of PCI devices are taken out of their configuration space") {
  std::string config(4096, '\x11');
  const auto put = [&](std::size_t at, unsigned id, unsigned next) {
    config[at] = static_cast<char>(id);
    config[at + 1] = 0;
    config[at + 2] = static_cast<char>((next << 4 & 0xff) | 1);
    config[at + 3] = static_cast<char>(next >> 4);
  };
  put(0x100, 1, 0x148);
  put(0x148, 3, 0);
  Anonymiser anonymous("h");
  const auto bytes = anonymous.content("sys/devices/x/config", config);
  CHECK(bytes.substr(0x14c, 8) == std::string(8, '\0'));
  CHECK(bytes.substr(0, 0x14c) == config.substr(0, 0x14c));
  CHECK(bytes.substr(0x154) == config.substr(0x154));
  for (const std::size_t size : {0U, 64U, 256U, 260U, 0x14cU}) {
    CHECK(anonymous.content("sys/config", config.substr(0, size)).size() == size);
  }
}

}  // namespace virtrain::harness
