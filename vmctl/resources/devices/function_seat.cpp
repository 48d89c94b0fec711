#include "vmctl/resources/devices/function_seat.h"

#include "common/files/reading.h"
#include "common/text/units.h"
#include "vmctl/devices/pci.h"

namespace virtrain::vmctl {

std::string physical_function_of(const std::filesystem::path& devices, const std::string& address) {
  return link_name(devices / address / "physfn");
}

std::optional<FunctionSeat> find_seat(const std::filesystem::path& devices, const std::string& address) {
  const auto physical = devices / physical_function_of(devices, address);
  for (const auto& link : entries_of(physical)) {
    const auto name = link.filename().string();
    if (!name.starts_with("virtfn") || link_name(link) != address) { continue; }
    const auto index = parse_integer(name.substr(6));
    if (!index) { continue; }
    FunctionSeat seat{physical / "sriov" / name.substr(6), "", static_cast<int>(*index)};
    if (const auto interfaces = entries_of(physical / "net"); !interfaces.empty()) {
      seat.interface = interfaces.front().filename().string();
    }
    return seat;
  }
  return std::nullopt;
}

}  // namespace virtrain::vmctl
