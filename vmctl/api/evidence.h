#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace virtrain::vmctl {

/// Errors that the kernel has counted for a device since its start (sysfs: aer_dev_correctable and its like).
struct LinkErrors {
  std::uint64_t correctable = 0;
  std::uint64_t nonfatal = 0;
  std::uint64_t fatal = 0;
  bool operator==(const LinkErrors&) const = default;
};
BOOST_DESCRIBE_STRUCT(LinkErrors, (), (correctable, nonfatal, fatal))

/// A PCIe link at its best while it was watched (an idle GPU slows its link down), and what it can be.
struct LinkEvidence {
  double gigatransfers = 0;  ///< per second and lane; 0: never seen
  int lanes = 0;
  double possible_gigatransfers = 0;
  int possible_lanes = 0;
};
BOOST_DESCRIBE_STRUCT(LinkEvidence, (), (gigatransfers, lanes, possible_gigatransfers, possible_lanes))

/// Energy that the host's processor packages have used since the watch began.
struct EnergyReading {
  std::int64_t t_ns = 0;  ///< monotonic
  double joules = 0;
};
BOOST_DESCRIBE_STRUCT(EnergyReading, (), (t_ns, joules))

/// Observations of watched devices and of the host itself; empty without any.
struct DeviceEvidence {
  /// By the device's address, when the watch began and now.
  std::map<std::string, LinkErrors> link_errors_before = {}, link_errors_after = {};
  std::map<std::string, LinkEvidence> links = {};  ///< of its GPUs
  std::vector<std::string> acs_gaps = {};  ///< bridges above its devices that let them talk past the IOMMU
  bool unsafe_interrupts = false;
  std::vector<EnergyReading> package_energy = {};  ///< where the host has RAPL
};
BOOST_DESCRIBE_STRUCT(DeviceEvidence, (),
                      (link_errors_before, link_errors_after, links, acs_gaps, unsafe_interrupts,
                       package_energy))

/// A host's own addresses, loopback left out; none twice.
struct HostAddresses {
  std::vector<std::string> ipv4, link_local;
};
BOOST_DESCRIBE_STRUCT(HostAddresses, (), (ipv4, link_local))

/// Requirements of backend cuda that a host fails, a sentence each; empty: it meets all.
struct CudaHost {
  std::string trainer;                 ///< it is not there, or lacks a library
  std::vector<std::string> libraries;  ///< that it is linked to, or opens when it runs
  std::string host_driver;             ///< no driver of NVIDIA's is loaded, which bare metal trains with
  std::string guest_driver;            ///< mirror guests would get none
};
BOOST_DESCRIBE_STRUCT(CudaHost, (), (trainer, libraries, host_driver, guest_driver))

}  // namespace virtrain::vmctl
