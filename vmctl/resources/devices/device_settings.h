#pragma once

#include <set>
#include <string>

#include "vmctl/api/device_settings.h"
#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

/// Reads the settings of this host's GPU. Throws Error.
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
