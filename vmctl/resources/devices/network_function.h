#pragma once

#include <boost/describe/class.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "vmctl/journal/leases.h"
#include "vmctl/resources/devices/function_seat.h"

namespace virtrain::vmctl {

/// Settings of a virtual function that the physical function of its NIC enforces.
struct FunctionSettings {
  std::string mac;       ///< "52:54:00:…"; zeros: its driver may choose
  std::string spoofchk;  ///< "on": frames with another sender's address are dropped
  std::string trust;     ///< "off": it may neither listen to others' frames nor change its address
  bool operator==(const FunctionSettings&) const = default;
};
BOOST_DESCRIBE_STRUCT(FunctionSettings, (), (mac, spoofchk, trust))

/// The network interface that the host's driver makes of a virtual function.
struct FunctionInterface {
  std::string name;  ///< empty: there is none
  std::string mac, mtu;
  bool is_up = false;
  bool operator==(const FunctionInterface&) const = default;
};
BOOST_DESCRIBE_STRUCT(FunctionInterface, (), (name, mac, mtu, is_up))

/// State of the effect by which a virtual function is the network of one node. A driver reads the address
/// that the physical function enforces when it takes the function up, so that for a slice, and after it, the
/// function is bound again; what VMs get is bound by its lender.
struct FunctionUse {
  FunctionSettings before, wanted;
  std::string driver;           ///< that is bound again; empty: none is
  FunctionInterface interface;  ///< as it was
};
BOOST_DESCRIBE_STRUCT(FunctionUse, (), (before, wanted, driver, interface))

/// From what `ip link show` prints of the physical function; nothing without a line of that function.
std::optional<FunctionSettings> parse_function_settings(const std::string& text, int index);
/// The words of ip that set what differs; empty: nothing does.
std::vector<std::string> settings_command(const FunctionSeat& seat, const FunctionSettings& now,
                                          const FunctionSettings& wanted);
/// Commands for ip by which an interface becomes as it was before.
std::vector<std::string> steps_to_restore(const FunctionInterface& now, const FunctionInterface& before);

/// As sysfs shows it in this network namespace.
FunctionInterface read_interface(const std::string& address,
                                 const std::filesystem::path& devices = pci_devices);

/// The effect, not yet done, by which the function gets that address, for a slice or a VM. Throws
/// Error(not_found) where it is no virtual function of an interface, Error(busy) where a slice would take it
/// from somebody.
Effect network_function_effect(const std::string& address, const std::string& mac, bool for_slice);

}  // namespace virtrain::vmctl
