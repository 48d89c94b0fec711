#include "vmctl/resources/devices/network_function.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/devices/binding.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds interface_patience{20};
constexpr int most_bindings = 4;

std::string operation_of(const std::string& address) {
  return "use virtual function " + address + " as a network";
}

FunctionSeat seat_of(const std::string& address) {
  const auto seat = find_seat(pci_devices, address);
  if (!seat || seat->interface.empty()) {
    throw Error(
        operation_of(address), ErrorCode::not_found,
        seat ? "its physical function has no network interface here" : "it is not a virtual function");
  }
  return *seat;
}

FunctionSettings read_settings(const FunctionSeat& seat) {
  const auto shown = run_checked({"ip", "link", "show", "dev", seat.interface}).out;
  const auto found = parse_function_settings(shown, seat.index);
  if (!found) {
    throw Error(fmt::format("read virtual function {} of {}", seat.index, seat.interface),
                ErrorCode::host_unable, "ip link show lists no such function (does its driver support it?)");
  }
  return *found;
}

void set_settings(const FunctionSeat& seat, const FunctionSettings& wanted) {
  const auto command = settings_command(seat, read_settings(seat), wanted);
  if (command.empty()) { return; }
  const auto result = run_command(command);
  if (result.exit_status != 0) {
    throw Error("run " + join(command, " "), ErrorCode::host_unable, printable(trim(result.err)));
  }
}

/// udev gives a new interface its name.
void let_udev_name_it() {
  const auto seconds = std::to_string(interface_patience.count());
  try {
    run_command({"udevadm", "settle", "--timeout=" + seconds});
  } catch (const Error&) {
    // Where there is no udev the kernel's name stays.
  }
}

FunctionInterface await_interface(const std::string& address) {
  constexpr std::chrono::milliseconds pause{50};
  const auto end = std::chrono::steady_clock::now() + interface_patience;
  while (read_interface(address).name.empty()) {
    if (std::chrono::steady_clock::now() > end) {
      throw Error(operation_of(address), ErrorCode::io,
                  "its driver has made no network interface (the kernel's log says why: dmesg)");
    }
    std::this_thread::sleep_for(pause);
  }
  let_udev_name_it();
  return read_interface(address);
}

void bind_again(const std::string& address, const std::string& driver) {
  const auto pci = pci_folder(address).parent_path().parent_path();
  if (!bound_driver(address).empty()) { write_sysfs(pci_folder(address) / "driver/unbind", address); }
  write_sysfs(pci / "drivers" / driver / "bind", address);
}

void make_use(const Effect& effect) {
  const auto use = from_state<FunctionUse>(effect.state);
  const auto seat = seat_of(effect.name);
  set_settings(seat, use.wanted);
  const auto now = read_settings(seat);
  if (now.mac != use.wanted.mac || now.spoofchk != use.wanted.spoofchk) {
    throw Error(operation_of(effect.name), ErrorCode::host_unable,
                fmt::format("{} was to enforce {} with spoofchk on, and enforces {} with spoofchk {}",
                            seat.interface, use.wanted.mac, now.mac, now.spoofchk));
  }
  if (use.driver.empty()) { return; }
  FunctionInterface interface;
  // Drivers go on with an address that they make up where the physical function did not answer at once.
  for (int i = 0; i < most_bindings && interface.mac != use.wanted.mac; ++i) {
    bind_again(effect.name, use.driver);
    interface = await_interface(effect.name);
  }
  if (interface.mac != use.wanted.mac) {
    throw Error(operation_of(effect.name), ErrorCode::host_unable,
                fmt::format("{} was given {}, and its driver {} made {} with {}", effect.name, use.wanted.mac,
                            use.driver, interface.name, interface.mac));
  }
}

/// The host sees no interface of a function in a slice, nor of one that was cut off while it was bound again.
bool has_interface_left(const Effect& effect, const FunctionUse& use) {
  return !use.driver.empty() && bound_driver(effect.name) != vfio_driver &&
         read_interface(effect.name) != use.interface;
}

std::string use_left(const Effect& effect) {
  const auto seat = find_seat(pci_devices, effect.name);
  if (!seat || seat->interface.empty()) { return ""; }
  const auto use = from_state<FunctionUse>(effect.state);
  const auto now = read_settings(*seat);
  if (now != use.before) {
    return fmt::format("{} enforces {} (before: {})", seat->interface, now.mac, use.before.mac);
  }
  return has_interface_left(effect, use) ? "its interface is not as it was" : "";
}

void undo_use(const Effect& effect) {
  const auto seat = find_seat(pci_devices, effect.name);
  if (!seat || seat->interface.empty()) { return; }
  const auto use = from_state<FunctionUse>(effect.state);
  set_settings(*seat, use.before);
  if (use.driver.empty() || !has_interface_left(effect, use)) { return; }
  bind_again(effect.name, use.driver);
  const auto steps = steps_to_restore(await_interface(effect.name), use.interface);
  if (!steps.empty()) { run_ip({}, steps); }
}

}  // namespace

std::optional<FunctionSettings> parse_function_settings(const std::string& text, int index) {
  for (const auto& line : split(text, '\n')) {
    const auto words = words_of(line);
    if (words.size() < 2 || words[0] != "vf" || words[1] != std::to_string(index)) { continue; }
    const auto after = [&](std::string_view name) -> std::string {
      const auto at = std::ranges::find(words, name);
      if (at == words.end() || at + 1 == words.end()) { return ""; }
      auto word = std::string(*(at + 1));
      if (word.ends_with(',')) { word.pop_back(); }
      return word;
    };
    FunctionSettings found{after("link/ether"), after("checking"), after("trust")};
    if (found.mac.empty()) { found.mac = after("MAC"); }  // before iproute2 5.1
    if (found.mac.empty()) { return std::nullopt; }
    return found;
  }
  return std::nullopt;
}

std::vector<std::string> settings_command(const FunctionSeat& seat, const FunctionSettings& now,
                                          const FunctionSettings& wanted) {
  std::vector<std::string> words{
      "ip", "link", "set", "dev", seat.interface, "vf", std::to_string(seat.index)};
  const auto none = words.size();
  const auto set = [&](const char* what, const std::string& from, const std::string& to) {
    if (from != to && !to.empty()) { words.insert(words.end(), {what, to}); }
  };
  set("mac", now.mac, wanted.mac);
  set("spoofchk", now.spoofchk, wanted.spoofchk);
  set("trust", now.trust, wanted.trust);
  return words.size() == none ? std::vector<std::string>() : words;
}

std::vector<std::string> steps_to_restore(const FunctionInterface& now, const FunctionInterface& before) {
  std::vector<std::string> steps;
  if (before.name.empty() || now.name.empty()) { return steps; }
  const auto set = [&](const std::string& name, const std::string& what) {
    steps.push_back(fmt::format("link set {} {}", name, what));
  };
  const bool is_renamed = now.name != before.name;
  if (now.is_up && (is_renamed || !before.is_up)) { set(now.name, "down"); }  // only then it takes a name
  if (is_renamed) { set(now.name, "name " + before.name); }
  if (now.mac != before.mac) { set(before.name, "address " + before.mac); }
  if (now.mtu != before.mtu) { set(before.name, "mtu " + before.mtu); }
  if (before.is_up && (!now.is_up || is_renamed)) { set(before.name, "up"); }
  return steps;
}

FunctionInterface read_interface(const std::string& address, const fs::path& devices) {
  FunctionInterface found;
  const auto interfaces = entry_names(devices / address / "net");
  if (interfaces.empty()) { return found; }
  const auto folder = devices / address / "net" / interfaces.front();
  const auto flags = read_value(folder / "flags").value_or("0");  // "0x1003"
  found.name = interfaces.front();
  found.mac = read_value(folder / "address").value_or("");
  found.mtu = read_value(folder / "mtu").value_or("");
  found.is_up = (std::strtoul(flags.c_str(), nullptr, 16) & IFF_UP) != 0;
  return found;
}

Effect network_function_effect(const std::string& address, const std::string& mac, bool for_slice) {
  FunctionUse use;
  use.before = read_settings(seat_of(address));
  use.wanted = {mac, "on", use.before.trust.empty() ? "" : "off"};
  if (for_slice) {
    refuse_users(address);
    use.driver = bound_driver(address);
    use.interface = read_interface(address);
    if (use.driver.empty() || use.interface.name.empty()) {
      throw Error(operation_of(address), ErrorCode::busy,
                  use.driver.empty() ? "no driver has it, and a slice needs its network interface"
                                     : "its interface is in another network namespace, or it has none");
    }
  }
  return Effect{.kind = EffectKind::network_function, .name = address, .state = to_state(use)};
}

const Handler network_function_handler{.kind = EffectKind::network_function,
                                       .make = make_use,
                                       .left = use_left,
                                       .undo = undo_use,
                                       .device = named_device};

}  // namespace virtrain::vmctl
