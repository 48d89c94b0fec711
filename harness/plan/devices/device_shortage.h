#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/plan/devices/device_slots.h"
#include "harness/plan/devices/lack.h"

namespace virtrain::harness {

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
