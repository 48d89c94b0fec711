#pragma once

#include <CLI/CLI.hpp>

#include <future>
#include <string>
#include <vector>

#include "harness/hosts/named_host.h"
#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// The hosts that a verb's command line names.
struct HostsArguments {
  std::string hosts;  ///< a hosts file, or names with commas between; empty: none
  bool skip_unreachable = false;
};

/// Adds --hosts and --skip-unreachable to a verb; returns the former.
CLI::Option* add_hosts_options(CLI::App& verb, HostsArguments& arguments);

/// Work for each of several hosts, all at once; results in the order of the hosts. The first Error is
/// thrown once all have ended.
template <typename Work>
auto on_each(std::vector<NamedHost>& hosts, const Work& work) {
  using Result = decltype(work(hosts.front()));
  std::vector<std::future<Result>> pending;
  pending.reserve(hosts.size());
  for (auto& host : hosts) {
    pending.push_back(std::async(std::launch::async, [&work, &host] { return work(host); }));
  }
  std::vector<Result> results;
  results.reserve(hosts.size());
  for (auto& one : pending) { results.push_back(one.get()); }
  return results;
}

}  // namespace virtrain::harness
