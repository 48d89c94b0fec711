#include "harness/scenario/decode_guest.h"

#include <fmt/format.h>

#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr std::uint64_t mib = 1ULL << 20;
constexpr std::uint64_t tib = 1ULL << 40;

vmctl::GuestNetwork decode_network(const Field& field, Diagnostics& diagnostics) {
  vmctl::GuestNetwork network;
  MapReader in(field, "network", diagnostics);
  if (const auto i =
          in.one_of("vhost", {"off", "on"},
                    {"Whether the host's kernel carries packets, or QEMU; else as libvirt likes"})) {
    network.vhost = *i == 1;
  }
  in.integer("queues", {1, 256}, network.queues, "Pairs of queues of the NIC; at most as many as vCPUs help");
  in.finish();
  return network;
}

}  // namespace

Guest decode_guest(const Field& field, Diagnostics& diagnostics) {
  Guest guest;
  MapReader in(field, "guest", diagnostics);
  in.require("vcpus");
  in.require("memory");
  if (const auto image = in.text(
          "image", 4096,
          {"mirror (this host's own packages), or the absolute path of a qcow2 or raw image with cloud-init",
           mirror_image, "/var/lib/images/debian-12.qcow2", "^(mirror|/.+)$"})) {
    guest.image = *image;
    if (*image != mirror_image && !image->starts_with('/')) {
      in.refuse("image", fmt::format("image: '{}' is neither mirror nor the absolute path of a qcow2 or raw "
                                     "image with cloud-init (allowed: mirror, /path/to/image.qcow2)",
                                     excerpt(*image)));
    }
  }
  if (const auto vcpus = in.integer("vcpus", {1, 1024}, {"Cores of each node", nullptr, 32})) {
    guest.vcpus = *vcpus;
  }
  if (const auto memory = in.size_bytes("memory", 128 * mib, 64 * tib,
                                        {"Memory of each node, in KiB, MiB, GiB or TiB", nullptr, "64GiB"})) {
    guest.memory_bytes = *memory;
  }
  in.one_of("pinning", guest.pinning,
            "Each vCPU to a core; numa: all of a node to one NUMA node's; none: where the kernel likes");
  in.boolean("hugepages", guest.hugepages, "Memory from the host's huge pages");
  in.one_of("topology", guest.topology,
            "How a VM's devices hang together: as on the host, by NUMA node, or all below one root complex");
  in.one_of(
      "memory_encryption", guest.memory_encryption,
      "bounce: VMs copy all that devices read and write, as confidential guests do, without encryption");
  if (const auto network = in.child("network", {"The virtio NIC of each VM"})) {
    guest.network = decode_network(*network, diagnostics);
  }
  const About nccl{
      "NCCL_TOPO_FILE in VMs with GPUs: on (made from the host's switches and links), off, or the "
      "absolute path of a file",
      "on", "off", "^(on|off|/.+)$"};
  if (const auto topology = in.text("nccl_topology", 4096, nccl)) {
    guest.nccl_topology = *topology;
    if (*topology != "on" && *topology != "off" && !topology->starts_with('/')) {
      in.refuse("nccl_topology", fmt::format("nccl_topology: '{}' is not allowed (allowed: on, off, or the "
                                             "absolute path of a topology file)",
                                             excerpt(*topology)));
    }
  }
  in.finish();
  return guest;
}

}  // namespace virtrain::harness
