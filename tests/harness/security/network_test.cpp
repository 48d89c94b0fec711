// Planted answers of nodes and their networks: what each of them makes of a search.

#include <fmt/format.h>

#include <algorithm>

#include "harness/security/network_searches.h"
#include "harness/trial/live_nodes.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

/// What all nodes say and answer where tenants are apart: the controls, and nothing else.
struct Network {
  NodePlacement owner_place, peer_place, looking_place;
  LiveNode owner, peer, looking;
  NetworkSearches searches{{{"192.0.2.7"}, {"fe80::77"}}, "10.77.0.1/16", "10.77.0.2/16"};
  canary::Reached reach;

  Network() {
    owner_place.address = "10.77.0.1/16";
    owner.placement = &owner_place;
    for (auto& [node, listener] : searches.listeners(owner, peer, looking)) {
      const auto name = node == &owner ? "a" : node == &peer ? "b" : "c";
      listener.said = {std::string("52:54:00:00:00:0") + name, std::string("fe80::") + name, true};
    }
    const auto targets = searches.request(true).targets;
    reach.heard = {"peer"};
    answer("tcp-control/10.77.200.2 port 1024", "connected", "", "peer");
    answer("ipv6-control/fe80::b port 1024", "connected", "", "peer");
    answer("arp-control/10.77.200.2", "replied", "52:54:00:00:00:0b");
    answer("ping/ff02::1", "replied", "fe80::b");
    answer("vsock-control/CID 1 port 47103", "connected", "", "own");
    for (const auto* name : {"tcp-scan", "ipv6-scan"}) {
      reach.scans.push_back({name, 65'535, 65'535, 0, {}, {}});
      reach.scans.push_back({std::string(name) + "-control", 2, 2, 2, {1024, 40'000}, {}});
    }
    const auto scans = searches.request(true).scans;
    REQUIRE(scans.size() == reach.scans.size());
    for (std::size_t i = 0; i < scans.size(); ++i) { CHECK(scans[i].name == reach.scans[i].target); }
    for (const auto& one : reach.answers) {  // each of them was really asked for
      CHECK(std::any_of(targets.begin(), targets.end(), [&](const auto& t) { return t.name == one.target; }));
    }
  }
  void answer(const std::string& target, const std::string& how, const std::string& who = "",
              const std::string& canary = "") {
    reach.answers.push_back({target, how, who, canary});
  }
  void forget(const std::string& group) {
    std::erase_if(reach.answers, [&](const auto& one) { return one.target.starts_with(group + "/"); });
  }
  LeakEvidence evidence(const std::string& name) const {
    for (const auto& [search, evidence] : searches.judge(reach, true)) {
      if (search == name) { return evidence; }
    }
    return {.failure = "no such search"};
  }
  std::string result(const std::string& name) const { return to_string(judge(evidence(name))); }
};

}  // namespace

TEST_CASE("tenants that are apart: each search of the network passes by its control") {
  const Network network;
  for (const auto& name : network_search_names()) {
    CAPTURE(name);
    CHECK(network.result(name) == "not_found");
  }
}

TEST_CASE("each planted way from tenant to tenant is found, by its own search alone") {
  struct Planted {
    std::string target, how, who, canary, search;
  };
  const std::vector<Planted> leaks{{"tcp/10.77.200.1 port 1024", "connected", "", "owner", "network_tcp"},
                                   {"tcp/10.77.200.1 port 22", "refused", "", "", "network_tcp"},
                                   {"ipv6/fe80::a port 40000", "connected", "", "owner", "network_ipv6"},
                                   {"ping/ff02::1", "replied", "fe80::a", "", "network_ipv6"},
                                   {"ping/ff02::1", "replied", "fe80::1234", "", "network_ipv6"},
                                   {"arp/10.77.200.1", "replied", "52:54:00:00:00:0a", "", "network_arp"},
                                   {"host/192.0.2.7", "replied", "02:00:00:00:00:01", "", "host_addresses"},
                                   {"host/fe80::77 port 22", "refused", "", "", "host_addresses"},
                                   {"ping/ff02::1", "replied", "fe80::77", "", "host_addresses"},
                                   {"vsock/CID 3 port 47101", "connected", "", "owner", "vsock"},
                                   {"vsock-own/CID 1 port 47101", "connected", "", "owner", "vsock"}};
  for (const auto& leak : leaks) {
    CAPTURE(leak.target, leak.who);
    Network network;
    network.answer(leak.target, leak.how, leak.who, leak.canary);
    for (const auto& name : network_search_names()) {
      CAPTURE(name);
      CHECK(network.result(name) == (name == leak.search ? "leak" : "not_found"));
    }
  }
  Network network;
  network.reach.heard.emplace_back("owner");
  CHECK(network.result("network_arp") == "leak");
}

TEST_CASE("a port that only the scan finds is a leak, and the share that it asked is said") {
  for (const auto& [scan, search] : {std::pair{0, "network_tcp"}, std::pair{2, "network_ipv6"}}) {
    CAPTURE(search);
    Network network;
    auto& found = network.reach.scans.at(static_cast<std::size_t>(scan));
    found.scanned = 13'107;
    CHECK(network.evidence(search).scanned / network.evidence(search).total == 0.2);
    found.answered = 3;
    found.open = {6000};
    found.closed = {7, 8};
    CHECK(network.result(search) == "leak");
    CHECK_THAT(network.evidence(search).leaks.at(0), Contains("port 6000 connected"));
    CHECK(network.evidence(search).limits == "3 of 65535 ports answer");
    // The same port by a connection is no second leak.
    if (scan == 0) { network.answer("tcp/10.77.200.1 port 6000", "connected"); }
    CHECK(network.evidence(search).leaks.size() == 3);
    // Without the control of the same means nothing is known of other ports.
    Network deaf;
    deaf.reach.scans.at(static_cast<std::size_t>(scan) + 1).open.clear();
    CHECK(deaf.result(search) == "inconclusive");
    deaf.reach.scans.clear();
    CHECK(deaf.result(search) == "inconclusive");
  }
}

TEST_CASE("of very many addresses of a host a part is tried, and the share is said") {
  HostAddresses many;
  for (int i = 0; i < 2048; ++i) { many.ipv4.push_back(fmt::format("192.0.{}.{}", i / 256, i % 256)); }
  for (int i = 0; i < 20; ++i) { many.link_local.push_back(fmt::format("fe80::77:{}", i)); }
  Network network;
  NetworkSearches searches(many, "10.77.0.1/16", "10.77.0.2/16");
  for (auto& [node, listener] : searches.listeners(network.owner, network.peer, network.looking)) {
    listener.said = {"52:54:00:00:00:0b", "", false};
  }
  const auto targets = searches.request(true).targets;
  const auto of_host = std::count_if(targets.begin(), targets.end(),
                                     [](const auto& one) { return one.name.starts_with("host/"); });
  CHECK(of_host == 1024 + 20 * 3);
  for (const auto& [name, evidence] : searches.judge(network.reach, true)) {
    if (name != host_addresses_search) { continue; }
    CHECK(evidence.scanned == 1024 + 60);
    CHECK(evidence.total == 2048 + 60);
  }
}

TEST_CASE("a search whose control is silent is inconclusive") {
  for (const auto& [group, search] :
       {std::pair{"tcp-control", "network_tcp"}, std::pair{"ipv6-control", "network_ipv6"},
        std::pair{"ping", "network_ipv6"}, std::pair{"arp-control", "network_arp"},
        std::pair{"ping", "host_addresses"}, std::pair{"vsock-control", "vsock"}}) {
    CAPTURE(group);
    Network network;
    network.forget(group);
    CHECK(network.result(search) == "inconclusive");
  }
  Network deaf;
  deaf.reach.heard.clear();
  CHECK(deaf.result("network_arp") == "inconclusive");
}
