#include "harness/scenario/decode/guest.h"

#include <algorithm>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

const std::vector<std::string> encryptions{"none", "bounce", "sev-snp", "tdx"};

constexpr std::uint64_t mib = 1ULL << 20;
constexpr std::uint64_t tib = 1ULL << 40;

vmctl::GuestNetwork decode_network(const Field& field, Diagnostics& diagnostics) {
  vmctl::GuestNetwork network;
  MapReader in(field, "network", diagnostics);
  const About vhost{.text = "Who carries packets: the host's kernel (on), or QEMU (off)",
                    .absent = "libvirt chooses"};
  if (const auto i = in.one_of("vhost", {"off", "on"}, vhost)) { network.vhost = *i == 1; }
  in.integer("queues", {1, 256}, network.queues,
             "Pairs of queues of the NIC; more pairs than vCPUs do not help");
  const About mtu{.text = "Bytes of the largest packet in the tenant's network, of VMs and slices alike",
                  .absent = "1500, the kernel's own",
                  .example = 9000};
  if (const auto bytes = in.integer("mtu", {1280, 65'000}, mtu)) { network.mtu = *bytes; }
  in.finish();
  return network;
}

constexpr const char* rate_pattern = "^[0-9]+(B|KiB|MiB|GiB|TiB)/s$";
constexpr const char* cpu_pattern = "^[0-9]+(\\.[0-9]+)?(%| cores?)$";

/// "100MiB/s".
void decode_rate(MapReader& in, const char* key, const About& about, std::optional<std::uint64_t>& into) {
  constexpr std::uint64_t least = 1ULL << 10, most = 1ULL << 40;  // tc takes no more as a 64-bit rate in bits
  constexpr std::string_view each_second = "/s";
  const auto text = in.text(key, 64, about);
  if (!text) { return; }
  std::optional<std::uint64_t> bytes;
  if (text->ends_with("B/s")) {
    bytes = parse_size_bytes(text->substr(0, text->size() - each_second.size()));
  }
  if (bytes && *bytes >= least && *bytes <= most) {
    into = bytes;
    return;
  }
  in.refuse(key, "{}: '{}' is not allowed (allowed: bytes a second such as 100MiB/s, from 1KiB/s to 1TiB/s)",
            key, excerpt(*text));
}

bool is_model_name(const std::string& text) {
  const auto is_inner = [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && (is_letter(text[0]) || is_digit(text[0])) &&
         std::all_of(text.begin(), text.end(), is_inner);
}

/// "50%" of the vCPUs, or "0.5 cores"; in cores.
std::optional<double> parse_cpu_limit(std::string_view text, std::int64_t vcpus) {
  for (const std::string_view unit : {" cores", " core"}) {
    if (text.ends_with(unit)) { return parse_number(text.substr(0, text.size() - unit.size())); }
  }
  if (!text.ends_with('%')) { return std::nullopt; }
  const auto share = parse_share(text);
  return share ? std::optional(*share * static_cast<double>(vcpus)) : std::nullopt;
}

}  // namespace

vmctl::NodeLimits decode_limits(const Field& field, const vmctl::NodeLimits& base, std::int64_t vcpus,
                                Diagnostics& diagnostics) {
  constexpr Range requests{1, 1'000'000'000};
  constexpr const char* unlimited = "no limit";
  auto limits = base;
  MapReader in(field, "limits", diagnostics);
  const About cpu{.text = "CPU time of a node, QEMU's own threads included: a share of its vCPUs, or cores",
                  .absent = unlimited,
                  .example = "50%",
                  .pattern = cpu_pattern};
  if (const auto text = in.text("cpu", 64, cpu)) {
    constexpr double least_cores = 0.01;  // the kernel's least quota
    const auto cores = parse_cpu_limit(*text, vcpus);
    limits.cpu_cores = cores;
    if (!cores || *cores < least_cores || *cores > static_cast<double>(vcpus)) {
      in.refuse("cpu",
                "cpu: '{}' is not allowed (allowed: a share of the node's vCPUs such as 50%, "
                "or cores such as 0.5 cores; at least 0.01 cores and at most {} {})",
                excerpt(*text), vcpus, vcpus == 1 ? "core" : "cores");
    }
  }
  const auto rate = [&](const char* key, const char* text, std::optional<std::uint64_t>& into) {
    decode_rate(in, key, {.text = text, .absent = unlimited, .example = "100MiB/s", .pattern = rate_pattern},
                into);
  };
  const auto count = [&](const char* key, const char* text, std::optional<std::uint64_t>& into) {
    const About about{.text = text, .absent = unlimited, .example = 500};
    if (const auto value = in.integer(key, requests, about)) { into = static_cast<std::uint64_t>(*value); }
  };
  rate("disk_read", "Bytes a second that a node reads from its disks", limits.disk_read);
  rate("disk_write", "Bytes a second that a node writes to its disks", limits.disk_write);
  count("disk_read_iops", "Reads a second from a node's disks", limits.disk_read_iops);
  count("disk_write_iops", "Writes a second to a node's disks", limits.disk_write_iops);
  rate("network_in", "Bytes a second that a node receives", limits.network_in);
  rate("network_out", "Bytes a second that a node sends", limits.network_out);
  const auto part = [&](const char* key, const char* text, std::optional<double>& into) {
    const About about{.text = text, .absent = unlimited, .example = "50%"};
    if (const auto value = in.share(key, 0, 1, about)) { into = value; }
  };
  part("llc", "Share of each last-level cache that a node may fill, by resctrl", limits.llc);
  part("memory_bandwidth", "Share of each socket's memory bandwidth, by resctrl", limits.memory_bandwidth);
  in.finish();
  return limits;
}

Guest decode_guest(const Field& field, Diagnostics& diagnostics) {
  Guest guest;
  MapReader in(field, "guest", diagnostics);
  in.require("vcpus");
  in.require("memory");
  const About of_image{.text =
                           "mirror (this host's own packages), or the absolute path of a qcow2 or raw "
                           "image with cloud-init",
                       .fallback = mirror_image,
                       .example = "/var/lib/images/debian-12.qcow2",
                       .pattern = "^(mirror|/.+)$"};
  if (const auto image = in.text("image", 4096, of_image)) {
    guest.image = *image;
    if (*image != mirror_image && !image->starts_with('/')) {
      in.refuse("image",
                "image: '{}' is neither mirror nor the absolute path of a qcow2 or raw "
                "image with cloud-init (allowed: mirror, /path/to/image.qcow2)",
                excerpt(*image));
    }
  }
  const About of_vcpus{.text = "Cores of each node", .example = 32};
  if (const auto vcpus = in.integer("vcpus", {1, 1024}, of_vcpus)) { guest.vcpus = *vcpus; }
  const About of_memory{.text = "Memory of each node, in KiB, MiB, GiB or TiB", .example = "64GiB"};
  if (const auto memory = in.size_bytes("memory", 128 * mib, 64 * tib, of_memory)) {
    guest.memory_bytes = *memory;
  }
  in.one_of("pinning", guest.pinning,
            "cores: each vCPU has a core; numa: the same, and all cores of a node are of one NUMA node; "
            "none: the kernel chooses");
  in.one_of("smt", guest.smt,
            "Threads of the host's cores that vCPUs have: any; siblings: both of a core before the next "
            "core; apart: one of each core, whose other stays idle");
  if (guest.smt != vmctl::Smt::any && guest.pinning == vmctl::Pinning::none) {
    in.refuse("smt", "smt: {} has no meaning without pinning (allowed with pinning: cores, numa)",
              to_string(guest.smt));
  }
  const About of_model{.text = "CPU that VMs see: host, or a model of libvirt's (virsh cpu-models x86_64)",
                       .fallback = vmctl::host_cpu_model,
                       .example = "Skylake-Server-IBRS",
                       .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"};
  if (const auto model = in.text("cpu_model", 64, of_model)) {
    guest.cpu_model = *model;
    if (!is_model_name(*model)) {
      in.refuse("cpu_model",
                "cpu_model: '{}' is not allowed (allowed: host, or the name of a CPU "
                "model such as Skylake-Server-IBRS)",
                excerpt(*model));
    }
  }
  in.boolean("hugepages", guest.hugepages, "Memory from the host's huge pages");
  in.one_of("topology", guest.topology,
            "How a VM's devices hang together: as on the host, by NUMA node, or all below one root complex");
  const About encryption{.text =
                             "Confidential VMs of AMD (sev-snp) or Intel (tdx); bounce: VMs copy what "
                             "devices read and write, as confidential VMs do, without encryption",
                         .fallback = "none"};
  if (const auto i = in.one_of("memory_encryption", encryptions, encryption)) {
    guest.memory_encryption = static_cast<vmctl::MemoryEncryption>(*i);
  }
  if (const auto network = in.child("network", {.text = "The network device of each node",
                                                .absent = "one pair of queues, and libvirt chooses vhost"})) {
    guest.network = decode_network(*network, diagnostics);
  }
  const About nccl{.text =
                       "NCCL_TOPO_FILE in VMs with GPUs: on (made from the host's switches and links), "
                       "off, or the absolute path of a file",
                   .fallback = "on",
                   .example = "off",
                   .pattern = "^(on|off|/.+)$"};
  if (const auto topology = in.text("nccl_topology", 4096, nccl)) {
    guest.nccl_topology = *topology;
    if (*topology != "on" && *topology != "off" && !topology->starts_with('/')) {
      in.refuse("nccl_topology",
                "nccl_topology: '{}' is not allowed (allowed: on, off, or the "
                "absolute path of a topology file)",
                excerpt(*topology));
    }
  }
  in.one_of("emulator_threads", guest.emulator_threads,
            "QEMU's helper threads: apart (on cores that no node has, if there are any), or on_vcpus");
  if (guest.emulator_threads == vmctl::EmulatorThreads::on_vcpus && guest.pinning == vmctl::Pinning::none) {
    in.refuse(
        "emulator_threads",
        "emulator_threads: on_vcpus has no meaning without pinning (allowed with pinning: cores, numa)");
  }
  if (const auto limits = in.child(
          "limits", {.text = "What each node may use at most, VM and slice alike", .absent = "no limits"})) {
    guest.limits = decode_limits(*limits, guest.limits, guest.vcpus, diagnostics);
  }
  in.finish();
  return guest;
}

}  // namespace virtrain::harness
