#include "vmctl/api/device_grant.h"

#include <algorithm>
#include <iterator>

#include "common/contains.h"

namespace virtrain::vmctl {

bool is_made_for_each_vm(const DeviceGrant& grant) {
  return grant.kind == GrantKind::mdev || grant.kind == GrantKind::vendor_vfio;
}

bool must_make_way(const std::vector<DeviceGrant>& lent, const std::vector<DeviceGrant>& wanted) {
  std::vector<DeviceGrant> missing;
  std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(missing),
               [&](const auto& grant) { return !contains(lent, grant); });
  const auto is_of_its_card = [](const DeviceGrant& old) {
    return [&old](const DeviceGrant& grant) { return grant.physical_function == old.physical_function; };
  };
  const auto is_in_the_way = [&](const DeviceGrant& old) {
    return old.kind == GrantKind::virtual_function && std::ranges::any_of(missing, is_of_its_card(old));
  };
  const auto is_to_be_erased = [&](const DeviceGrant& old) {
    return std::ranges::any_of(wanted, [&](const DeviceGrant& grant) {
      return grant.between_tenants == BetweenTenants::erase && grant.address == old.address;
    });
  };
  return std::ranges::any_of(lent, is_to_be_erased) ||
         (!missing.empty() && std::ranges::any_of(lent, is_in_the_way));
}

}  // namespace virtrain::vmctl
