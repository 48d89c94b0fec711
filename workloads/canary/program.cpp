#include "workloads/canary/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>

#include "common/error.h"
#include "workloads/canary/dma_engine.h"
#include "workloads/canary/gpu.h"
#include "workloads/canary/memory.h"
#include "workloads/canary/network.h"
#include "workloads/canary/requests.h"
#include "workloads/common/program.h"
#include "workloads/common/protocol.h"

namespace virtrain::canary {
namespace {

using std::chrono::seconds;
namespace fs = std::filesystem;

constexpr const char* help =
    "Usage: virtrain-canary search|memory|peer|functions|fill|listen|reach\n\n"
    "Reads a request (JSON) on standard input and answers with one record. virtrain starts it in the nodes "
    "of\n"
    "leak searches; docs/isolation-security.md says what it looks for.\n";

template <typename Answer>
void say(Answer answer) {
  write_record(Answer::record, 0, answer_json(std::move(answer)));
}

void listen(const ListenRequest& wanted) {
  Listener listener(wanted);
  const auto& device = listener.device();
  say(Listening{mac_text(device.mac), device.link_local ? address_text(*device.link_local) : "",
                listener.has_vsock()});
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
  const seconds time(wanted.seconds);
  Filled all;
  for (const auto& path : wanted.paths) {
    const auto gpu = address_of_gpu(path);
    const auto filled = gpu ? fill_gpu(*gpu, wanted.canary, time) : fill_memory(path, wanted.canary, time);
    all.bytes += filled.bytes;
    all.total += filled.total;
    all.read_back = filled.read_back;
  }
  say(all);
}

void find_memory(const MemoryRequest& wanted) {
  FoundMemory memory;
  for (const auto& address : wanted.functions) {
    if (is_nvidia("/", address)) {
      const auto lack = gpu_lack(address);
      if (lack.empty()) { memory.paths.push_back(gpu_path(address)); }
      if (memory.lacks.empty()) { memory.lacks = lack; }
      continue;
    }
    for (const auto& path : device_memory("/", address)) {
      memory.paths.push_back(path.string());
      memory.holds_data = memory.holds_data || (path.native().starts_with("/dev/") && holds_data(path));
    }
  }
  say(memory);
}

/// The controls and what is not this node's, one as the other.
void read_by_engine(const PeerRequest& wanted, const EngineMaker& others) {
  const LockedPage own;
  const auto engine = find_engine("/", own, others);
  if (!engine) {
    say(PeerReads{.lacks = "virtrain-canary knows no DMA engine of the node's devices"});
    return;
  }
  const auto canaries = canaries_of(wanted.canaries);
  for (const auto& one : canaries) {
    if (one.name == wanted.control) { one.text.copy(own.data(), LockedPage::size); }
  }
  const auto read = [&](const std::vector<BusRange>& ranges) {
    return read_by_device(*engine, canaries, ranges, seconds(wanted.seconds));
  };
  std::vector<BusRange> devices;
  for (const fs::path file : wanted.own) {
    for (const auto& region : memory_regions(file.parent_path())) {
      if (region.file == file) { devices.push_back({file.string(), region.address, region.bytes}); }
    }
  }
  PeerReads reads;
  reads.memory = read({{"memory", own.physical_address(), LockedPage::size}});
  reads.devices = read(devices);
  reads.foreign = read(wanted.ranges);
  say(reads);
}

void search(const SearchRequest& wanted) {
  const auto canaries = canaries_of(wanted.canaries);
  const SearchLimits limits{wanted.bytes, seconds(wanted.seconds)};
  std::vector<std::string> gpus;
  std::vector<fs::path> files;
  for (const auto& root : wanted.roots) {
    if (const auto gpu = address_of_gpu(root)) {
      gpus.push_back(*gpu);
    } else {
      files.emplace_back(root);
    }
  }
  auto report = search_files(canaries, files, limits);
  for (const auto& gpu : gpus) {
    const auto more = search_gpu(gpu, canaries, limits);
    report.scanned_bytes += more.scanned_bytes;
    report.total_bytes += more.total_bytes;
    report.found.insert(report.found.end(), more.found.begin(), more.found.end());
  }
  say(message_of(report));
}

struct Verb {
  std::string_view word;
  std::function<void(const std::string& request)> take;
};

template <typename Request>
Verb verb(std::function<void(const Request&)> work) {
  return {Request::verb,
          [work = std::move(work)](const std::string& text) { work(read_request<Request>(text)); }};
}

struct Parsed {
  std::optional<std::string> help;
  Verb flags;
};

Parsed parse(int argc, char** argv, const std::vector<Verb>& verbs) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--help" || word == "-h") { return {help, {}}; }
  for (const auto& one : verbs) {
    if (word == one.word) { return {std::nullopt, one}; }
  }
  throw usage("expects one of search, memory, peer, functions, fill, listen, reach");
}

}  // namespace

int run_canary(int argc, char** argv, const EngineMaker& others) {
  const std::vector<Verb> verbs{
      verb<SearchRequest>(search),
      verb<MemoryRequest>(find_memory),
      verb<PeerRequest>([&](const auto& wanted) { read_by_engine(wanted, others); }),
      verb<FunctionsRequest>([](const auto& wanted) { say(see_functions("/", wanted.known)); }),
      verb<FillRequest>(fill),
      verb<ListenRequest>([](const auto& wanted) { listen(wanted); }),
      verb<ReachRequest>([](const auto& wanted) { say(try_to_reach(wanted)); })};
  const auto run = [](const Verb& wanted) {
    wanted.take({std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
    return 0;
  };
  return run_program(
      "virtrain-canary", "canary", [&] { return parse(argc, argv, verbs); }, run);
}

}  // namespace virtrain::canary
