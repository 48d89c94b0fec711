#pragma once

#include <string>
#include <tuple>
#include <type_traits>

#include "vmctl/api/host.h"

// The requests of the protocol between coordinator and host are the calls of Host: one row each, with the
// calls that it is made one after the other with, whatever a coordinator sends.

// clang-format off
#define VIRTRAIN_HOST_CALLS(ROW)                                                                        \
  ROW(inventory, looks) ROW(fingerprint, looks) ROW(devices, looks) ROW(numa_nodes_of, looks)           \
  ROW(addresses, looks) ROW(planned_xml, looks) ROW(nccl_topology_of, looks) ROW(domain_xml_of, looks)  \
  ROW(log_root, looks) ROW(record, looks) ROW(look_at_network, looks)                                   \
  ROW(examine, looks) ROW(checks, looks) ROW(examine_devices, looks) ROW(privileges, looks)             \
  ROW(lacks_user_namespaces, looks) ROW(lacks_system_libvirt, looks) ROW(closed_to_qemu, looks)         \
  ROW(lacks_limits, looks) ROW(check_guest, looks) ROW(look_at_cuda, looks) ROW(has_image, looks)       \
  ROW(begin, run) ROW(acquire, run) ROW(end, run) ROW(take_payload, run) ROW(make_image, run) ROW(cancel, none)                \
  ROW(keep_services_away, run) ROW(lend, run) ROW(set, run) ROW(give_back, run) ROW(end_lending, run)   \
  ROW(plan_nodes, run) ROW(make_networks, run) ROW(start, run) ROW(counters, none)                      \
  ROW(last_words, run) ROW(kill, run) ROW(await_end, run) ROW(check_topology, run) ROW(remove, run)     \
  ROW(watch_devices, none) ROW(watched, none)                                                           \
  ROW(plant, run) ROW(remove_planted, run) ROW(plant_in_memory, run) ROW(search_leftovers, run)         \
  ROW(check_modes, run)                                                                                 \
  ROW(leftovers, looks) ROW(clean, looks) ROW(forget, looks) ROW(lift_quarantine, looks)
// clang-format on

namespace virtrain::vmctl {

/// Result and arguments of a method of Host.
template <typename Method>
struct CallOf;
template <typename Result_, typename Part, typename... Argument>
struct CallOf<Result_ (Part::*)(Argument...)> {
  using Result = Result_;
  using Arguments = std::tuple<std::remove_cvref_t<Argument>...>;
};

/// Calls that share what they change: of each kind but `none` one is made at a time.
enum class CallOrder { none, looks, run };

/// The name of a call in messages.
template <auto method>
inline constexpr const char* call_name = nullptr;
#define VIRTRAIN_CALL_NAME(CALL, ORDER) \
  template <>                           \
  inline constexpr const char* call_name<& Host::CALL> = #CALL;
VIRTRAIN_HOST_CALLS(VIRTRAIN_CALL_NAME)
#undef VIRTRAIN_CALL_NAME

/// Tells builds apart: a digest of all calls and counters, with the shapes of their values.
const std::string& protocol_digest();

/// Error(host_unable) in words where the peer is another build; `whose`: "virtrain-host" or "virtrain".
void require_same_build(const std::string& whose, const std::string& version, const std::string& digest);

}  // namespace virtrain::vmctl
