#pragma once

#include <string>
#include <vector>

#include "vmctl/devices/device_grant.h"

namespace virtrain::vmctl {

struct PlannedEffect;

/// Whether what is lent has to go back before `wanted` can be: a vGPU that nobody wants any more has room, or
/// the very function, that another type needs, and the number of a card's virtual functions cannot change
/// while there are any. Pure.
bool must_make_way(const std::vector<DeviceGrant>& lent, const std::vector<DeviceGrant>& wanted);

// Parts of devices: mediated devices, vGPU types of virtual functions, and virtual functions themselves. Each
// with its effect as it is journalled (`state` is JSON), the doing, what is left of it in words, and the
// undoing. All throw Error.

PlannedEffect mdev_effect(const DeviceGrant& grant);
std::string mdev_parent(const std::string& state);
void make_mdev(const std::string& uuid, const std::string& state);
std::string mdev_left(const std::string& uuid);
void remove_mdev(const std::string& uuid);

/// Error(busy) where the function carries a vGPU already, Error(host_unable) where it does not offer the
/// type.
PlannedEffect vgpu_type_effect(const DeviceGrant& grant);
void set_vgpu_type(const std::string& address, const std::string& state);
std::string vgpu_type_left(const std::string& address, const std::string& state);
void clear_vgpu_type(const std::string& address, const std::string& state);

/// The effects (one, or none where they are there) that a physical function needs so that it has all of
/// these. Error(busy) where it has some but not these: their number cannot be changed while they are there.
std::vector<PlannedEffect> virtual_functions_effect(const std::string& physical_function,
                                                    const std::vector<std::string>& wanted);
void make_virtual_functions(const std::string& physical_function, const std::string& state);
std::string virtual_functions_left(const std::string& physical_function, const std::string& state);
void remove_virtual_functions(const std::string& physical_function, const std::string& state);

}  // namespace virtrain::vmctl
