#include "harness/hosts/run_hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "common/contains.h"
#include "common/error.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "harness/hosts/at_once.h"

namespace virtrain::harness {
namespace {

using namespace vmctl;

/// Whether a host has stamped something between then and now. Else its clock is another one than ours.
bool is_within(std::int64_t stamp_ns, std::int64_t began_ns) {
  return stamp_ns >= began_ns && stamp_ns <= monotonic_ns();
}

}  // namespace

RunHosts::RunHosts(Host& only) : hosts_{{"", {}, &only}} {}

RunHosts::RunHosts(const std::vector<NamedHost>& hosts) {
  for (const auto& host : hosts) { hosts_.push_back({host.name, host.network, host.host.get()}); }
}

void RunHosts::attach(const std::vector<AttachedMachine>& machines,
                      const std::vector<std::unique_ptr<AttachedHost>>& hosts) {
  for (std::size_t i = 0; i < machines.size(); ++i) {
    attached_.push_back({machines[i].name, {}, hosts[i].get()});
    machines_.push_back(hosts[i].get());
  }
}

Host& RunHosts::only() const {
  if (hosts_.size() != 1) {
    throw Error("ask the run's host", ErrorCode::host_unable, "the run has several hosts");
  }
  return *hosts_.front().host;
}

/// The work takes a Member and its Host.
template <typename Work>
auto RunHosts::of_all(Work&& work) const {
  return at_once(hosts_, [&](const Member& member) { return work(member, *member.host); });
}

/// The work takes a Host and the group's number there.
template <typename Work>
auto RunHosts::of_group(NodeGroupId group, Work&& work) const {
  std::vector<Place> places;
  {
    const std::scoped_lock lock(mutex_);
    places = groups_.at(static_cast<std::size_t>(group - 1));
  }
  return at_once(places,
                 [&](const Place& place) { return work(*place.member, *place.member->host, place.id); });
}

template <auto method, typename... Argument>
auto RunHosts::of_node(NodeId node, const Argument&... argument) const {
  const auto place = place_of(node);
  return (place.member->host->*method)(place.id, argument...);
}

RunHosts::Member& RunHosts::member(const std::string& name) {
  for (auto& one : attached_) {
    if (one.name == name) { return one; }
  }
  const auto found = std::ranges::find(hosts_, name, &Member::name);
  if (found == hosts_.end()) {
    throw Error("ask a host of the run", ErrorCode::protocol, "there is no host '" + name + "'");
  }
  return *found;
}

RunHosts::Place RunHosts::place_of(NodeId node) const {
  const std::scoped_lock lock(mutex_);
  return nodes_.at(static_cast<std::size_t>(node - 1));
}

// --- the run

template <typename Work>
auto RunHosts::of_attached(Work&& work) const {
  return at_once(attached_, [&](const Member& member) { return work(member, *member.host); });
}

void RunHosts::begin_attached(const RunSpec& run) {
  std::vector<std::string> reasons;
  std::mutex guard;
  at_once(attached_, [&](const Member& member) {
    try {
      member.host->begin(run);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) { throw; }
      const std::scoped_lock lock(guard);
      reasons.emplace_back(error.what());
    }
  });
  constexpr const char* operation = "attach machines";
  std::ranges::sort(reasons);
  if (!reasons.empty()) { throw Error(operation, ErrorCode::host_unable, join(reasons, "\n")); }
  std::vector<std::string> shared = machines_.empty() ? std::vector<std::string>() : machines_[0]->folders();
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (machines_[i]->identity() != machines_[j]->identity()) { continue; }
      throw Error(
          operation, ErrorCode::host_unable,
          fmt::format("{} and {} are one machine: both have the same machine-id and boot id (attach each "
                      "machine once)",
                      attached_[j].name, attached_[i].name));
    }
    const auto theirs = machines_[i]->folders();
    std::erase_if(shared, [&](const std::string& folder) { return !contains(theirs, folder); });
  }
  // mpirun names its folder once for all nodes.
  for (auto* machine : machines_) {
    machine->use_folder(shared.empty() ? machine->folders().front() : shared.front());
  }
}

void RunHosts::begin(const RunSpec& run) {
  begin_attached(run);
  if (hosts_.size() > 1) {
    auto networks =
        of_all([](const Member& member, Host& host) { return host.look_at_network(member.network); });
    for (std::size_t i = 0; i < hosts_.size(); ++i) { hosts_[i].between = std::move(networks[i]); }
  }
  for (auto& member : hosts_) {
    member.run = run;
    if (hosts_.size() == 1) { continue; }
    member.run.host = member.name;
    member.run.network = member.network;
    for (const auto& other : hosts_) {
      const auto& end = other.between.address;  // of the tunnel
      const bool is_tunnelled = member.network.kind == HostNetworkKind::vxlan;
      if (is_tunnelled && &other != &member && !end.empty()) { member.run.peers.push_back(end); }
    }
  }
  of_all([](const Member& member, Host& host) {
    try {
      host.begin(member.run);
    } catch (const Error& error) {
      // The id is new: nobody else can hold it.
      const bool is_own = error.operation().ends_with("lease experiment:" + member.run.experiment);
      if (error.code() != ErrorCode::busy || !is_own) { throw; }
      throw Error(error.operation(), ErrorCode::host_unable,
                  error.message() +
                      ", and this run's lease is new: two names lead to one machine, or two hosts share a "
                      "state folder (name each machine once; where hosts have one home folder, set "
                      "XDG_STATE_HOME in launcher)");
    }
  });
}

void RunHosts::acquire(const ByHost<std::vector<std::string>>& resources) {
  for (const auto& [name, wanted] : resources) { member(name); }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    const auto found = resources.find(hosts_[i].name);
    if (found == resources.end()) { continue; }
    const auto& wanted = found->second;
    try {
      hosts_[i].host->acquire(wanted);
    } catch (const Error& error) {
      // The hosts that were taken go back, so that two runs do not wait for each other.
      for (std::size_t taken = 0; taken < i; ++taken) {
        hosts_[taken].host->end(true);
        hosts_[taken].host->begin(hosts_[taken].run);
      }
      throw;
    }
  }
}

void RunHosts::end(bool stored) {
  const bool alone = hosts_.size() == 1;
  of_attached([stored](const Member&, Host& host) { host.end(stored); });
  of_all([&](const Member& member, Host& host) {
    try {
      host.end(stored);
    } catch (const Error& error) {
      if (alone) { throw; }
      log::warning("a host could not end the run, and does so by itself",
                   {{"host", member.name}, {"reason", error.what()}});
    }
  });
}

ByHost<std::map<std::string, std::string>> RunHosts::fingerprints() {
  ByHost<std::map<std::string, std::string>> by_host;
  auto all = of_all([](const Member& member, Host& host) {
    auto facts = host.fingerprint();
    if (const auto& network = member.between; network.mtu > 0) {
      facts["network_mtu"] = std::to_string(network.mtu);
      facts["network_driver"] = network.driver;
      facts["network_firmware"] = network.firmware;
      facts["network_link_speed"] = network.link_speed;
    }
    return facts;
  });
  for (std::size_t i = 0; i < hosts_.size(); ++i) { by_host.emplace(hosts_[i].name, std::move(all[i])); }
  return by_host;
}

std::string RunHosts::take_payload(const std::string& path, bool of_hosts) {
  const auto way = [&](const std::string& host) {
    return fmt::format("copy it there: rsync {} {}:{}, or put it on a shared folder, or sbcast it", path,
                       host, path);
  };
  auto of_machines = of_attached([&](const Member&, Host& host) { return host.take_payload(path); });
  std::erase(of_machines, "");  // runs nothing in it
  if (!of_hosts) { return of_machines.empty() ? "" : of_machines.front(); }
  const auto digests = of_all([&](const Member& member, Host& host) {
    try {
      return host.take_payload(path);
    } catch (const Error& error) {
      if (member.name.empty() || error.code() != ErrorCode::host_unable) { throw; }
      throw Error(error.operation(), error.code(), fmt::format("{} ({})", error.message(), way(member.name)));
    }
  });
  for (std::size_t i = 1; i < digests.size(); ++i) {
    if (digests[i] == digests[0]) { continue; }
    throw Error("take the payload " + path, ErrorCode::host_unable,
                fmt::format("{} has {} and {} has {} there ({})", hosts_[0].name, digests[0], hosts_[i].name,
                            digests[i], way(hosts_[i].name)));
  }
  for (const auto& digest : of_machines) {
    if (digests.empty() || digest == digests.front()) { continue; }
    throw Error(
        "take the payload " + path, ErrorCode::host_unable,
        fmt::format("the file has changed: attached machines have {}, and this host {} (run it again)",
                    digest, digests.front()));
  }
  return digests.empty() ? "" : digests.front();
}

ImageFacts RunHosts::make_image(const ImageSpec& spec) {
  const auto images = of_all([&](const Member&, Host& host) { return host.make_image(spec); });
  for (std::size_t i = 1; i < images.size(); ++i) {
    if (images[i].virtualization != images[0].virtualization) {
      throw Error("make the guest image", ErrorCode::host_unable,
                  fmt::format("{} runs VMs as {} and {} as {} (leave one of them out: --hosts)",
                              hosts_[0].name, to_string(images[0].virtualization), hosts_[i].name,
                              to_string(images[i].virtualization)));
    }
  }
  auto facts = images.front();
  facts.from_cache = std::ranges::all_of(images, &ImageFacts::from_cache);
  return facts;
}

void RunHosts::cancel() {
  is_cancelled_ = true;
  for (const auto* members : {&hosts_, &attached_}) {
    for (const auto& member : *members) { member.host->cancel(); }
  }
}

namespace {

/// The values of one host; none where it has none.
template <typename Value>
Value of_host(const ByHost<Value>& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? Value() : found->second;
}

std::vector<std::string> joined(std::vector<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (auto& list : lists) { std::ranges::move(list, std::back_inserter(all)); }
  return all;
}

}  // namespace

void RunHosts::keep_services_away(const ByHost<std::vector<DeviceGrant>>& grants) {
  of_all([&](const Member& member, Host& host) { host.keep_services_away(of_host(grants, member.name)); });
}

std::size_t RunHosts::lend(const ByHost<std::vector<DeviceGrant>>& grants, const CardSettings& cards) {
  std::size_t count = 0;
  for (const auto lent : of_all([&](const Member& member, Host& host) {
         return host.lend(of_host(grants, member.name), cards);
       })) {
    count += lent;
  }
  return count;
}

void RunHosts::set(const ByHost<std::vector<DeviceGrant>>& grants, const DeviceSettings& wanted) {
  of_all([&](const Member& member, Host& host) { host.set(of_host(grants, member.name), wanted); });
}

std::vector<std::string> RunHosts::give_back() {
  return joined(of_all([](const Member&, Host& host) { return host.give_back(); }));
}

std::vector<std::string> RunHosts::end_lending() {
  const bool alone = hosts_.size() == 1;
  return joined(of_all([alone](const Member& member, Host& host) {
    try {
      return host.end_lending();
    } catch (const Error& error) {
      if (alone) { throw; }
      log::warning("a host could not give its devices back, and does so by itself",
                   {{"host", member.name}, {"reason", error.what()}});
      return std::vector<std::string>();
    }
  }));
}

void RunHosts::watch_devices(const ByHost<std::vector<std::string>>& addresses) {
  of_all([&](const Member& member, Host& host) { host.watch_devices(of_host(addresses, member.name)); });
}

ByHost<DeviceEvidence> RunHosts::watched() {
  ByHost<DeviceEvidence> by_host;
  auto all = of_all([](const Member&, Host& host) {
    const auto began_ns = monotonic_ns();
    auto evidence = host.watched();
    auto& readings = evidence.package_energy;
    if (readings.empty() || is_within(readings.back().t_ns, began_ns)) { return evidence; }
    const auto shift = monotonic_ns() - readings.back().t_ns;
    for (auto& reading : readings) { reading.t_ns += shift; }
    return evidence;
  });
  for (std::size_t i = 0; i < hosts_.size(); ++i) { by_host.emplace(hosts_[i].name, std::move(all[i])); }
  return by_host;
}

// --- nodes

NodeGroup RunHosts::plan_nodes(const NodeGroupSpec& spec) {
  std::vector<Member*> wanted;  // hosts that have nodes of it
  std::vector<Member*> all;
  for (auto* members : {&hosts_, &attached_}) {
    for (auto& member : *members) { all.push_back(&member); }
  }
  for (auto* one : all) {
    auto& member = *one;
    const bool has_nodes = std::ranges::any_of(spec.tenants, [&](const auto& tenant) {
      return std::ranges::any_of(tenant, [&](const NodeSpec& node) { return node.host == member.name; });
    });
    if (has_nodes) { wanted.push_back(&member); }
  }
  auto parts = at_once(wanted, [&](const Member* member) { return member->host->plan_nodes(spec); });
  std::vector<std::pair<Member*, NodeFacts>> nodes;
  std::vector<Place> places;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    places.push_back({wanted[i], parts[i].id});
    for (auto& node : parts[i].nodes) { nodes.emplace_back(wanted[i], std::move(node)); }
  }
  std::ranges::stable_sort(nodes, {},
                           [](const auto& one) { return std::pair(one.second.tenant, one.second.placed); });
  const std::scoped_lock lock(mutex_);
  groups_.push_back(std::move(places));
  NodeGroup group{std::ssize(groups_), {}};
  for (auto& [member, node] : nodes) {
    nodes_.push_back({member, node.id});
    node.id = std::ssize(nodes_);
    group.nodes.push_back(std::move(node));
  }
  return group;
}

void RunHosts::make_networks(NodeGroupId group) {
  of_group(group, [](const Member&, Host& host, NodeGroupId there) { host.make_networks(there); });
}

std::vector<NodeStream> RunHosts::start(const std::vector<NodeId>& nodes) {
  std::map<Member*, std::vector<std::pair<std::size_t, std::int64_t>>> wanted;  // of `nodes`, by their hosts
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto place = place_of(nodes[n]);
    wanted[place.member].emplace_back(n, place.id);
  }
  std::vector<NodeStream> streams(nodes.size());
  at_once(wanted, [&](const auto& of_one) {
    for (const auto& [n, id] : of_one.second) {
      if (is_cancelled_) { throw Error("start nodes", ErrorCode::interrupted, "stopped"); }
      const auto began_ns = monotonic_ns();
      streams[n] = of_one.first->host->start(id);
      const bool is_ours = is_within(streams[n].started_ns, began_ns);
      if (!is_ours) { streams[n].started_ns = began_ns; }
    }
  });
  return streams;
}

NodeCounters RunHosts::counters(NodeId node) {
  const auto began_ns = monotonic_ns();
  auto counters = of_node<&Host::counters>(node);
  if (counters.domain && !is_within(counters.domain->monotonic_ns, began_ns)) {
    counters.domain->monotonic_ns = monotonic_ns();
  }
  return counters;
}

std::chrono::nanoseconds RunHosts::waiting_time(NodeId node) const {
  const auto place = place_of(node);
  const auto seen = place.member->host->look();
  const auto found = seen.waiting.find(place.id);
  return found == seen.waiting.end() ? std::chrono::nanoseconds(0) : found->second;
}

LastWords RunHosts::last_words(NodeId node) {
  return of_node<&Host::last_words>(node);
}

void RunHosts::kill(NodeId node) {
  of_node<&Host::kill>(node);
}

void RunHosts::await_end(NodeId node) {
  of_node<&Host::await_end>(node);
}

GuestTopology RunHosts::check_topology(NodeId node, const std::vector<PciFunction>& guest,
                                       const std::string& peers) {
  return of_node<&Host::check_topology>(node, guest, peers);
}

std::vector<int> RunHosts::numa_nodes_of(const std::string& host, const std::vector<int>& cores) {
  return member(host).host->numa_nodes_of(cores);
}

Removal RunHosts::remove(NodeGroupId group) {
  const bool alone = hosts_.size() == 1 && attached_.empty();
  const auto parts = of_group(group, [alone](const Member& member, Host& host, NodeGroupId there) {
    Removal part;
    try {
      part = host.remove(there);
    } catch (const Error& error) {
      if (alone) { throw; }
      part.left.emplace_back(error.what());
    }
    for (auto& words : part.left) {
      if (!alone && !words.starts_with(member.name + ": ")) { words.insert(0, member.name + ": "); }
    }
    return part;
  });
  Removal removal;
  for (const auto& part : parts) {
    std::ranges::copy(part.left, std::back_inserter(removal.left));
    std::ranges::copy(part.restarts, std::back_inserter(removal.restarts));
  }
  return removal;
}

}  // namespace virtrain::harness
