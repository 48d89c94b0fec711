#include <fmt/ostream.h>

#include <cerrno>
#include <iostream>
#include <memory>
#include <utility>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_bytes = 1 << 20;  // as of a scenario

struct TopologyArguments {
  std::string guest;
  std::string inventory = "/";
};

/// One byte more than is allowed, so that the reader sees that it is too long.
std::string read_domain(const std::string& guest) {
  const auto file = open_to_read(guest == "-" ? "/dev/stdin" : guest, Readable::regular_file_or_pipe);
  auto text = file ? read_at_most(file.get(), most_bytes + 1) : std::nullopt;
  if (text) { return std::move(*text); }
  throw Error(
      "read " + excerpt(guest), ErrorCode::not_found,
      errno == ETIMEDOUT ? "it is a pipe, and nothing comes through it" : "it cannot be read as a file");
}

std::string domain_xml(vmctl::HostLooks& host, const std::string& guest) {
  const bool is_name = guest != "-" && !guest.ends_with(".xml") && guest.find('/') == std::string::npos;
  return is_name ? host.domain_xml_of(guest) : read_domain(guest);
}

void print_topology(const TopologyArguments& arguments) {
  const auto host = open_host(arguments.inventory);
  const auto xml = domain_xml(*host, arguments.guest);
  try {
    fmt::print(std::cout, "{}", host->nccl_topology_of(xml));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    throw Error(error.operation(), error.code(), excerpt(arguments.guest) + ": " + error.message());
  }
}

}  // namespace

void add_topology_command(Cli& cli) {
  auto* verb = cli.app.add_subcommand(
      "topology", "Write NCCL's topology file for a VM that was not made by virtrain, from its libvirt XML");
  auto arguments = std::make_shared<TopologyArguments>();
  verb->add_option("--for-guest", arguments->guest,
                   "The VM: a file of its XML (FILE.xml, - for standard input), or its name in libvirt")
      ->type_name("FILE.xml|NAME")
      ->required();
  verb->add_option("--inventory", arguments->inventory,
                   "A recorded host, a folder with its proc/ and sys/ files (default: this host)")
      ->check(CLI::ExistingDirectory);
  verb->footer(
      "A VM does not show which GPUs and adapters share a PCIe switch or a NUMA node on the host. NCCL reads "
      "it from\n"
      "the file that NCCL_TOPO_FILE names. virtrain gives its own VMs such a file.\n"
      "Examples:\n"
      "  virtrain topology --for-guest trainer > topo.xml\n"
      "  virsh dumpxml trainer | virtrain topology --for-guest - > topo.xml\n"
      "  NCCL_TOPO_FILE=/etc/topo.xml all_reduce_perf -g 4      in the guest");
  verb->callback([arguments] { print_topology(*arguments); });
}

}  // namespace virtrain::harness
