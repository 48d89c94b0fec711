#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/hosts/launcher.h"
#include "harness/scenario/host_list.h"
#include "vmctl/api/host.h"
#include "vmctl/api/host_network.h"

namespace virtrain::harness {

/// One of several hosts, with its virtrain-host at the other end.
struct NamedHost {
  std::string name;
  vmctl::HostNetwork network;
  std::unique_ptr<vmctl::Host> host;
};

/// Starts virtrain-host on each host of the list, all at once, by the words of its launcher; in the list's
/// order. What the launcher needs no host to be told (request.elevation) is in those words. Throws Error
/// that names every host which does not answer, the command that was tried and what it said, and always
/// Error(host_unable) for one with another build. With `skip_unreachable` those that do not answer are logged
/// and left out; Error(host_unable) where none is left.
std::vector<NamedHost> open_hosts(const HostList& list, const HostRequest& request, bool skip_unreachable);

/// The words that start virtrain-host on that host: "{host}" is its name, the bare word virtrain-host this
/// machine's path of the program, and the request's options come last.
std::vector<std::string> launch_words(const std::vector<std::string>& launcher, const std::string& host,
                                      const HostRequest& request);

}  // namespace virtrain::harness
