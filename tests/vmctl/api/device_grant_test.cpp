#include "tests/support/catch.h"
#include "vmctl/api/device.h"

namespace virtrain::vmctl {
namespace {

DeviceGrant function(const std::string& address, const std::string& physical) {
  return {GrantKind::virtual_function, address, physical};
}

TEST_CASE("vGPUs are made for each VM, functions stay lent") {
  CHECK(is_made_for_each_vm({GrantKind::mdev, "0000:3b:00.0", "", "nvidia-1", "A"}));
  CHECK(is_made_for_each_vm({GrantKind::vendor_vfio, "0000:3b:00.4", "0000:3b:00.0", "902"}));
  CHECK_FALSE(is_made_for_each_vm(function("0000:98:00.2", "0000:98:00.0")));
  CHECK_FALSE(is_made_for_each_vm({GrantKind::passthrough, "0000:17:00.0"}));
}

TEST_CASE("virtual functions make way for more of their card, whole devices never") {
  const auto one = function("0000:98:00.2", "0000:98:00.0");
  const auto two = function("0000:98:00.3", "0000:98:00.0");
  CHECK(must_make_way({one}, {one, two}));
  CHECK_FALSE(must_make_way({one, two}, {one}));
  CHECK_FALSE(must_make_way({one}, {one, function("0000:99:00.2", "0000:99:00.0")}));
  const DeviceGrant whole{GrantKind::passthrough, "0000:17:00.0"};
  CHECK_FALSE(must_make_way({whole}, {{GrantKind::passthrough, "0000:31:00.0"}}));
}

TEST_CASE("a disk that is erased between tenants goes back to the host's driver before each of them") {
  DeviceGrant disk{GrantKind::passthrough, "0000:17:00.0"};
  for (const auto how : {BetweenTenants::none, BetweenTenants::reset, BetweenTenants::erase}) {
    disk.between_tenants = how;
    CHECK_FALSE(must_make_way({}, {disk}));
    CHECK(must_make_way({disk}, {disk}) == (how == BetweenTenants::erase));
    CHECK_FALSE(must_make_way({disk}, {{GrantKind::passthrough, "0000:31:00.0"}}));
  }
  auto plain = disk;
  plain.between_tenants = BetweenTenants::none;
  CHECK(must_make_way({plain}, {disk}));  // the arm before lent it as it was
  CHECK_FALSE(must_make_way({disk}, {plain}));
}

}  // namespace
}  // namespace virtrain::vmctl
