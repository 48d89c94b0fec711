#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/devices/device_slots.h"

namespace virtrain::harness {

/// A reason why a host cannot run a case.
struct Lack {
  std::string words;
  std::string resource = {};  ///< "cores": of its lacks the largest says enough; empty: each is told
  double demand = 0;

  Lack(std::string reason) : words(std::move(reason)) {}  // NOLINT: a reason is a lack of its own
  Lack(std::string reason, std::string of, double wanted)
      : words(std::move(reason)), resource(std::move(of)), demand(wanted) {}
  bool operator==(const Lack& other) const { return words == other.words; }
};

/// A line each; of lacks of one resource the largest demand alone, with the number of the others.
std::vector<std::string> lines_of(const std::vector<Lack>& lacks);

/// Adds up what the nodes of a case wanted and what they got, to say at the end what is missing and why.
class DeviceShortage {
 public:
  void add(const Devices& devices, const std::string& vgpu_type, std::size_t wanted, std::size_t got,
           const Offer& offer);
  void add_nics(std::size_t wanted, std::size_t got, const Offer& offer);

  /// "needs 2 GPUs, host HOST has 1 that devices.select allows: …", one for each kind of device that is
  /// short.
  std::vector<Lack> problems(const std::string& hostname) const;
  /// Whether all of it would be there once the devices' users are gone.
  bool is_only_busy() const;

 private:
  struct Count {
    std::string what;    ///< "GPU"
    std::string select;  ///< the key that says which
    std::size_t wanted = 0, got = 0, offered = 0, in_use = 0;
    std::vector<std::string> reasons;
  };
  Count& count(const std::string& what, const std::string& select, const Offer& offer);

  std::vector<Count> counts_;
};

}  // namespace virtrain::harness
