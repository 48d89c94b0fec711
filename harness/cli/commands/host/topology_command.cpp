#include <fmt/ostream.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>

#include "common/error.h"
#include "common/text/printable.h"
#include "harness/cli/commands.h"
#include "vmctl/api/local_host.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_bytes = 1 << 20;  // as of a scenario

struct TopologyArguments {
  std::string guest;
  std::string inventory = "/";
};

/// One byte more than is allowed, so that the reader sees that it is too long.
std::string read_bounded(std::istream& in) {
  std::string text(most_bytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

std::string domain_xml(vmctl::Host& host, const std::string& guest) {
  if (guest == "-") { return read_bounded(std::cin); }
  if (!guest.ends_with(".xml") && guest.find('/') == std::string::npos) { return host.domain_xml_of(guest); }
  std::ifstream file(guest);
  if (!file || std::filesystem::is_directory(guest)) {
    throw Error("read " + excerpt(guest), ErrorCode::not_found, "it cannot be read as a file");
  }
  return read_bounded(file);
}

void print_topology(const TopologyArguments& arguments) {
  const auto host = vmctl::local_host(arguments.inventory);
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
