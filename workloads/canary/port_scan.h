#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/canary_messages.h"
#include "workloads/canary/interface.h"

namespace virtrain::canary {

/// Asks every port with a SYN in a frame to the node's own MAC: so all ports take seconds, need no connection
/// of this kernel's each, and reach a node that does not answer ARP. Pure, but for what send() is given.
class PortScanner {
 public:
  /// Throws Error(bad_input) for what is no address. Without a link-local address of `device`, IPv6 targets
  /// have none of their ports asked.
  PortScanner(const Interface& device, const in_addr& source, const std::vector<ScanTarget>& targets);

  /// The next frame; empty: all have been asked as often as they are to be.
  std::string_view frame();
  /// The frame has been sent.
  void sent();
  bool is_done() const { return pass_ == passes; }
  /// Looks whether a frame that came is an answer.
  void take(std::string_view frame);
  std::vector<ScannedPorts> report() const;

  /// The first frames may come before a bridge forwards.
  static constexpr int passes = 2;

 private:
  struct Asked {
    ScanTarget target;
    std::string to;  ///< the address in network order: 4 or 16 bytes, as `from`
    std::string from;
    std::string ethernet;  ///< header
    std::size_t scanned = 0;
    std::map<std::uint16_t, bool> answers = {};  ///< whether it is open
  };
  std::string frame_to(const Asked& asked, std::uint16_t port) const;
  void skip_done();
  static std::uint16_t port_of(const Asked& asked, std::size_t index);
  static std::size_t port_count(const Asked& asked);

  std::vector<Asked> targets_;
  std::size_t target_ = 0, port_ = 0;
  int pass_ = 0;
  std::string frame_;
};

}  // namespace virtrain::canary
