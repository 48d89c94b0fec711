#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// What a GPU is set to, as far as it changes what is measured. Absent: not known, not offered, or not wanted
/// to be any particular way.
struct DeviceSettings {
  std::optional<bool> ecc, persistence, mig;
  std::optional<double> power_limit_watts;
  /// Locked; nvidia-smi sets them and cannot say them.
  std::optional<std::int64_t> graphics_clock_mhz, memory_clock_mhz;
  bool operator==(const DeviceSettings&) const = default;
  bool empty() const { return *this == DeviceSettings(); }
};

/// As the lease journal keeps it.
struct SettingsChange {
  DeviceSettings before, wanted;
  bool operator==(const SettingsChange&) const = default;
};
std::string to_json_text(const SettingsChange& change);
/// Throws Error(io) on text that to_json_text() has not made.
SettingsChange parse_settings_change(const std::string& text);

/// nvidia-smi's question for a GPU (its address, UUID or index), and what its one line of answer says.
std::vector<std::string> settings_query(const std::string& gpu);
DeviceSettings parse_settings_answer(const std::string& line);

/// nvidia-smi's commands that make `now` into `wanted`, where they differ. Persistence first, for without it
/// the driver forgets the others at once; last where it is to be off.
std::vector<std::vector<std::string>> settings_commands(const std::string& gpu, const DeviceSettings& now,
                                                        const DeviceSettings& wanted);

/// Where the GPU is not as wanted: "power limit is 300 W where 250 W was asked for". Empty: it is.
std::vector<std::string> settings_differences(const DeviceSettings& wanted, const DeviceSettings& now);

/// Of this host's GPU. Throws Error.
DeviceSettings read_settings(const std::string& gpu);
/// Sets and reads back; of `locked`, what we had locked, the clocks are free again where none are wanted.
/// Error(host_unable) where the GPU did not become as wanted, with what to do.
void apply_settings(const std::string& gpu, const DeviceSettings& wanted, const DeviceSettings& locked = {});

/// The limits of this host's GPUs (their addresses) as the lease journal keeps them: a GPU that nobody holds
/// open forgets what its owner has set. One of which nvidia-smi tells none is left out.
std::string power_limits(const std::set<std::string>& gpus);
/// Sets them again where they are others now. One that cannot be set is a warning: the GPU is sound without.
void restore_power_limits(const std::string& limits);

/// That a GPU of the host's own driver becomes as wanted.
Effect settings_effect(const std::string& address, const DeviceSettings& wanted);

}  // namespace virtrain::vmctl
