#include "vmctl/api/protocol/calls.h"

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/version.h"
#include "vmctl/api/protocol/wire.h"

namespace virtrain::vmctl {
namespace {

template <typename... Argument>
void append_shapes(std::string& shape, std::type_identity<std::tuple<Argument...>>) {
  (wire::append_shape<Argument>(shape), ...);
}

template <auto method>
void append_call(std::string& shape) {
  using Call = CallOf<decltype(method)>;
  shape += call_name<method>;
  append_shapes(shape, std::type_identity<typename Call::Arguments>());
  if constexpr (!std::is_void_v<typename Call::Result>) { wire::append_shape<typename Call::Result>(shape); }
}

}  // namespace

const std::string& protocol_digest() {
  static const std::string digest = [] {
    std::string shape;
#define VIRTRAIN_APPEND_CALL(CALL, ORDER) append_call<&Host::CALL>(shape);
    VIRTRAIN_HOST_CALLS(VIRTRAIN_APPEND_CALL)
#undef VIRTRAIN_APPEND_CALL
    wire::append_shape<HostCounters>(shape);
    return sha256(shape).substr(0, 16);
  }();
  return digest;
}

void require_same_build(const std::string& whose, const std::string& version, const std::string& digest) {
  if (version == virtrain_version && digest == protocol_digest()) { return; }
  throw Error(
      "talk to " + whose, ErrorCode::host_unable,
      fmt::format(
          "it is of another build: version {} ({}), this side is {} ({}); install the same one on both",
          excerpt(version, 64), excerpt(digest, 64), virtrain_version, protocol_digest()));
}

}  // namespace virtrain::vmctl
