#pragma once

#include <string>
#include <tuple>
#include <type_traits>

#include "vmctl/api/host.h"

// The requests of the protocol between coordinator and host are the calls of Host: one row each.

// clang-format off
#define VIRTRAIN_HOST_CALLS(ROW)                                                                                     \
  ROW(inventory) ROW(fingerprint) ROW(devices) ROW(numa_nodes_of) ROW(addresses) ROW(planned_xml)                    \
  ROW(nccl_topology_of) ROW(domain_xml_of) ROW(log_root) ROW(record)                                                 \
  ROW(examine) ROW(checks) ROW(examine_devices) ROW(privileges) ROW(lacks_user_namespaces) ROW(lacks_system_libvirt) \
  ROW(closed_to_qemu) ROW(lacks_limits) ROW(check_guest) ROW(look_at_cuda)                                           \
  ROW(begin) ROW(acquire) ROW(end) ROW(make_image) ROW(cancel)                                                       \
  ROW(keep_services_away) ROW(lend) ROW(set) ROW(give_back) ROW(end_lending)                                         \
  ROW(plan_nodes) ROW(make_networks) ROW(start) ROW(counters) ROW(waiting_time) ROW(last_words) ROW(kill)            \
  ROW(await_end) ROW(check_topology) ROW(remove)                                                                     \
  ROW(watch_devices) ROW(look_at_devices) ROW(watched)                                                               \
  ROW(plant) ROW(remove_planted) ROW(plant_in_memory) ROW(search_leftovers) ROW(check_modes)                         \
  ROW(leftovers) ROW(clean) ROW(forget) ROW(lift_quarantine)
// clang-format on

namespace virtrain::vmctl {

/// Result and arguments of a method of Host.
template <typename Method>
struct CallOf;
template <typename Result_, typename... Argument>
struct CallOf<Result_ (Host::*)(Argument...)> {
  using Result = Result_;
  using Arguments = std::tuple<std::remove_cvref_t<Argument>...>;
};

/// The name of a call in messages.
template <auto method>
inline constexpr const char* call_name = nullptr;
#define VIRTRAIN_CALL_NAME(CALL) \
  template <>                    \
  inline constexpr const char* call_name<& Host::CALL> = #CALL;
VIRTRAIN_HOST_CALLS(VIRTRAIN_CALL_NAME)
#undef VIRTRAIN_CALL_NAME

/// Tells builds apart: a digest of all calls with the shapes of their values.
const std::string& protocol_digest();

/// Error(host_unable) in words where the peer is another build; `whose`: "virtrain-host" or "virtrain".
void require_same_build(const std::string& whose, const std::string& version, const std::string& digest);

}  // namespace virtrain::vmctl
