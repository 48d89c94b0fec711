#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// A host bridge for slices, named "vt...", up, with `address` ("10.78.0.1/24") on it if given; without one
/// the host answers nothing there. Needs root.
void create_bridge(const std::string& name, const std::string& address = {},
                   const std::string& experiment = {});
/// Makes the host answer no ARP on a bridge that somebody else made.
void hide_host_on(const std::string& bridge);
/// A tap of `user`'s, plugged into a bridge and up.
void create_tap(const std::string& name, const std::string& bridge, uid_t user,
                const std::string& experiment);
/// A tunnel to other hosts, plugged into a bridge of ours.
struct Vxlan {
  std::string name;  ///< "vtx...", at most 15 characters
  std::string bridge;
  std::uint32_t number = 0;        ///< VNI: which frames are its own
  std::string nic, local;          ///< over which it goes, and that NIC's address
  std::vector<std::string> peers;  ///< addresses of the other ends
};
/// Makes it, up. What no end is known to have goes to all peers, and to no multicast group; which end has
/// what is learnt from what comes. Throws Error(busy) where there is a device of that name, which stays as
/// it is; Error(host_unable) with ip's words.
void create_vxlan(const Vxlan& vxlan, const std::string& experiment);
/// Throws Error(busy) where there is a device of that name.
void require_free_name(const std::string& device);
bool is_ipv6(const std::string& address);

/// No error if it does not exist.
void destroy_bridge(const std::string& name);

struct NicBytes {
  std::uint64_t rx = 0;
  std::uint64_t tx = 0;
};
/// Counters of a host device from /sys/class/net, the host's view; nothing if there is no such device.
std::optional<NicBytes> nic_bytes(const std::string& device);

/// Runs ip(8) commands in one batch, in network namespace `netns` or (empty) here. Throws Error with ip's
/// words.
void run_ip(const std::string& netns, const std::vector<std::string>& commands);
/// At most so many bytes a second leave through the device, of network namespace `netns` or (empty) here: a
/// token bucket, which keeps back what is too much and drops only what waits too long.
void limit_sending(const std::string& netns, const std::string& device, std::uint64_t bytes_per_second);
/// Why tc takes no such limit here, tried now in a network of its own; empty: it does.
std::string lacks_limits_of_sending();
/// The same of what libvirt's <bandwidth> asks of tc.
std::string lacks_libvirt_bandwidth();
/// No error if it does not exist.
void delete_link(const std::string& device);
void delete_namespace(const std::string& netns);

/// The alias that marks a device as virtrain's, and whose: "virtrain:<experiment>".
std::string link_alias(const std::string& experiment);
/// Experiment in a device's alias; nothing if it has none of ours.
std::optional<std::string> link_experiment(const std::string& device);

enum class LinkKind { bridge, veth, tap, vxlan, other };
/// The device's kind as its driver reports it; its name and its links in sysfs prove nothing.
LinkKind link_kind(const std::string& device);
/// As its driver says by ethtool; empty: it does not say.
struct LinkDriver {
  std::string driver, firmware;
};
LinkDriver driver_of_link(const std::string& device);
/// Devices plugged into a bridge.
std::vector<std::string> bridge_ports(const std::string& bridge);

/// Network devices of this host, and the names of its network namespaces.
std::vector<std::string> list_links();
std::vector<std::string> list_namespaces();

}  // namespace virtrain::vmctl
