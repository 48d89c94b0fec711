#include "harness/scenario/attached_machine.h"

#include <arpa/inet.h>

namespace virtrain::harness {

bool is_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, text.c_str(), bytes) == 1;
}

}  // namespace virtrain::harness
