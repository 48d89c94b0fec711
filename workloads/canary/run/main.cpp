// virtrain-canary VERB: the tool of `virtrain isolate --security` in a node. It plants canaries, and looks
// for those of others.
//
//   search   files, disks and device memory for canaries
//   memory   says where the memory of PCI functions is: disks of an NVMe controller, memory regions, GPUs
//   peer     has a device read addresses, and looks for canaries in what it brings
//   functions  says which PCI functions it sees, and whose memory regions it may write to
//   fill     disks and device memory with a canary
//   listen   goes to the background and greets whoever connects with a canary
//   reach    tries addresses and ports, and listens for canaries that come by themselves

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/text/json.h"
#include "workloads/canary/cuda/gpu_memory.h"
#include "workloads/canary/cuda/gpu_path.h"
#include "workloads/canary/dma_engine.h"
#include "workloads/canary/memory.h"
#include "workloads/canary/requests.h"
#include "workloads/canary/run/find_engine.h"
#include "workloads/common/command_line.h"
#include "workloads/common/protocol.h"
#include "workloads/common/run_program.h"

namespace {

using namespace virtrain;
using namespace virtrain::canary;

constexpr const char* help =
    "Usage: virtrain-canary search|memory|peer|functions|fill|listen|reach\n\n"
    "Reads a request (JSON) on standard input and answers with one record. virtrain starts it in the nodes "
    "of\n"
    "security probes; docs/isolation-security.md says what it looks for.\n";

struct Parsed {
  std::optional<std::string> help;
  std::string flags;  ///< the verb
};

Parsed parse(int argc, char** argv) {
  const std::string word = argc == 2 ? argv[1] : "";
  if (word == "--help" || word == "-h") { return {help, ""}; }
  for (const char* verb : {"search", "memory", "peer", "functions", "fill", "listen", "reach"}) {
    if (word == verb) { return {std::nullopt, word}; }
  }
  throw usage("expects one of search, memory, peer, functions, fill, listen, reach");
}

void listen(const nlohmann::json& request) {
  const auto wanted = listen_request(request);
  Listener listener(wanted);
  const auto& device = listener.device();
  write_record("listening", 0,
               {{"mac", mac_text(device.mac)},
                {"link_local", device.link_local ? address_text(*device.link_local) : ""},
                {"vsock", listener.has_vsock()}});
  // Who started it waits for its end, and what it offers must last.
  if (const pid_t child = ::fork(); child != 0) {
    if (child < 0) { throw errno_error("go to the background", errno); }
    return;
  }
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) { ::dup2(nothing, stream); }
  listener.serve();
}

void fill(const FillRequest& wanted) {
  Filled all;
  for (const auto& path : wanted.paths) {
    const auto gpu = address_of_gpu(path);
    const auto filled =
        gpu ? fill_gpu(*gpu, wanted.canary, wanted.time) : fill_memory(path, wanted.canary, wanted.time);
    all.bytes += filled.bytes;
    all.total += filled.total;
    all.read_back = filled.read_back;
  }
  write_record("filled", 0, {{"bytes", all.bytes}, {"total", all.total}, {"read_back", all.read_back}});
}

void find_memory(const std::vector<std::string>& addresses) {
  auto paths = nlohmann::json::array();
  bool any_data = false;
  std::string lacks;
  for (const auto& address : addresses) {
    if (is_nvidia("/", address)) {
      const auto lack = gpu_lack(address);
      if (lack.empty()) { paths.push_back(gpu_path(address)); }
      if (lacks.empty()) { lacks = lack; }
      continue;
    }
    for (const auto& path : device_memory("/", address)) {
      paths.push_back(path.string());
      any_data = any_data || (path.native().starts_with("/dev/") && holds_data(path));
    }
  }
  write_record("memory", 0, {{"paths", paths}, {"holds_data", any_data}, {"lacks", lacks}});
}

/// The controls and what is not this node's, one as the other.
void read_by_engine(const PeerRequest& wanted) {
  const LockedPage own;
  const auto engine = find_engine("/", own);
  if (!engine) {
    throw Error("find an engine", ErrorCode::not_found, "no device here has one that is known");
  }
  for (const auto& one : wanted.canaries) {
    if (one.name == wanted.control) { one.text.copy(own.data(), LockedPage::size); }
  }
  const auto read = [&](const std::vector<BusRange>& ranges) {
    auto all = nlohmann::json::array();
    for (const auto& one : read_by_device(*engine, wanted.canaries, ranges, wanted.time)) {
      all.push_back(to_json(one));
    }
    return all;
  };
  std::vector<BusRange> devices;
  for (const auto& file : wanted.own) {
    for (const auto& region : memory_regions(file.parent_path())) {
      if (region.file == file) { devices.push_back({file.string(), region.address, region.bytes}); }
    }
  }
  const auto memory = read({{"memory", own.physical_address(), LockedPage::size}});
  const auto own_devices = read(devices);
  write_record("peer", 0, {{"memory", memory}, {"devices", own_devices}, {"foreign", read(wanted.ranges)}});
}

SearchReport search(SearchRequest wanted) {
  std::vector<std::string> gpus;
  std::erase_if(wanted.roots, [&](const auto& root) {
    const auto gpu = address_of_gpu(root);
    if (gpu) { gpus.push_back(*gpu); }
    return gpu.has_value();
  });
  auto report = search_files(wanted.canaries, wanted.roots, wanted.limits);
  for (const auto& gpu : gpus) {
    const auto more = search_gpu(gpu, wanted.canaries, wanted.limits);
    report.scanned_bytes += more.scanned_bytes;
    report.total_bytes += more.total_bytes;
    report.found.insert(report.found.end(), more.found.begin(), more.found.end());
  }
  return report;
}

int run(const std::string& verb) {
  const std::string text{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
  const auto request = parse_json(text, "read the request", ErrorCode::bad_input);
  if (verb == "listen") {
    listen(request);
  } else if (verb == "reach") {
    write_record("reached", 0, to_json(try_to_reach(reach_request(request))));
  } else if (verb == "fill") {
    fill(fill_request(request));
  } else if (verb == "peer") {
    read_by_engine(peer_request(request));
  } else if (verb == "functions") {
    write_record("functions", 0, to_json(see_functions("/", functions_request(request))));
  } else if (verb == "memory") {
    find_memory(memory_request(request));
  } else {
    write_record("searched", 0, to_json(search(search_request(request))));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      "virtrain-canary", "canary", [&] { return parse(argc, argv); },
      [](const std::string& verb) { return run(verb); });
}
