#include "vmctl/devices/device_grant.h"

namespace virtrain::vmctl {

const char* to_string(GrantKind kind) {
  switch (kind) {
    case GrantKind::passthrough:
      return "passthrough";
    case GrantKind::virtual_function:
      return "virtual_function";
    case GrantKind::mdev:
      return "mdev";
    case GrantKind::vendor_vfio:
      return "vendor_vfio";
  }
  return "";
}

}  // namespace virtrain::vmctl
