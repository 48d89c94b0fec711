#pragma once

#include <string>
#include <vector>

#include "common/model/described.h"
#include "common/text/text.h"

namespace virtrain::harness {

inline constexpr std::size_t most_attached = 64;

/// A machine that somebody else made, and that is reached by a launcher: one node of an arm.
struct AttachedMachine {
  bool operator==(const AttachedMachine&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, address, {},
                 .text = "Address of this machine at which ranks on the arm's other machines reach it",
                 .key = "address", .most = 15, .fits = is_ipv4_address,
                 .refusal = "is not an IP address such as 192.0.2.7",
                 .absent = "the one on a network that all machines of the arm share", .example = "192.0.2.7");
  std::string name = {};                   ///< "cloud:1": of the arm, and counted in it
  std::vector<std::string> launcher = {};  ///< words, after which the machine runs one more: a program's name
};

}  // namespace virtrain::harness
