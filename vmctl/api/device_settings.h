#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/described.h"

namespace virtrain::vmctl {

using virtrain::to_string;

/// Meaning of a scenario's setting where it is absent.
inline constexpr const char* as_found = "as virtrain finds it";

/// GPU settings that change what is measured. Absent: unknown, not supported, or left as it is.
struct DeviceSettings {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<double>, power_limit_watts, {}, .text = "Largest power draw",
                 .key = "power_limit", .least = 1, .most = 10'000, .unit = ValueUnit::watts,
                 .absent = as_found, .example = "250W");
  // nvidia-smi locks the clocks and cannot say them.
  VIRTRAIN_FIELD(std::optional<std::int64_t>, graphics_clock_mhz, {},
                 .text = "Clock at which the GPU is locked", .key = "graphics_clock", .least = 1,
                 .most = 10'000, .unit = ValueUnit::megahertz, .absent = as_found, .example = "1410MHz");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, memory_clock_mhz, {},
                 .text = "Clock at which the GPU's memory is locked");
  VIRTRAIN_FIELD(std::optional<bool>, ecc, {}, .text = "Error correction of the GPU's memory", .key = "ecc",
                 .absent = as_found);
  VIRTRAIN_FIELD(std::optional<bool>, persistence, {},
                 .text = "Whether the driver keeps the GPU's state while nobody holds it",
                 .key = "persistence",
                 .absent = "on with power_limit or graphics_clock, else as virtrain finds it");
  VIRTRAIN_FIELD(std::optional<bool>, mig, {}, .text = "Multi-instance GPU", .key = "mig",
                 .absent = as_found);
  bool operator==(const DeviceSettings&) const = default;
  bool empty() const { return *this == DeviceSettings(); }
};
BOOST_DESCRIBE_STRUCT(DeviceSettings, (),
                      (ecc, persistence, mig, power_limit_watts, graphics_clock_mhz, memory_clock_mhz))

/// How a card shares its time among vGPUs, by NVML's numbers.
enum class VgpuScheduler { best_effort = 1, equal_share, fixed_share };
VIRTRAIN_DESCRIBE_ENUM(VgpuScheduler, best_effort, equal_share, fixed_share)

/// Settings of the cards behind vGPUs while VMs have these.
struct CardSettings {
  DeviceSettings gpu = {};
  std::optional<VgpuScheduler> vgpu_scheduler = {};
};
BOOST_DESCRIBE_STRUCT(CardSettings, (), (gpu, vgpu_scheduler))

/// nvidia-smi's question for a GPU (its address, UUID or index), and what its one line of answer says.
std::vector<std::string> settings_query(const std::string& gpu);

DeviceSettings parse_settings_answer(const std::string& line);

/// nvidia-smi's commands that make `now` into `wanted`, where they differ. Persistence first, for without it
/// the driver forgets the others at once; last where it is to be off.
std::vector<std::vector<std::string>> settings_commands(const std::string& gpu, const DeviceSettings& now,
                                                        const DeviceSettings& wanted);

/// Where the GPU is not as wanted: "power limit is 300 W where 250 W was asked for". Empty: it is.
std::vector<std::string> settings_differences(const DeviceSettings& wanted, const DeviceSettings& now);

}  // namespace virtrain::vmctl
