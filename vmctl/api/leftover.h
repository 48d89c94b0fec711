#pragma once

#include <boost/describe/class.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "vmctl/api/device.h"

namespace virtrain::vmctl {

/// Something on this host that looks like virtrain's, in words.
struct LeftoverWords {
  std::string kind;  ///< "domain", "binding", …
  std::string name, experiment, detail;
};
BOOST_DESCRIBE_STRUCT(LeftoverWords, (), (kind, name, experiment, detail))

/// A device that could not be given back as it was: nobody gets it until a person says so.
struct Quarantine {
  std::string address;
  std::string reason;
  std::string since;  ///< ISO 8601
};
BOOST_DESCRIBE_STRUCT(Quarantine, (), (address, reason, since))

struct Leftovers {
  std::vector<LeftoverWords> left;     ///< ours, and no live owner
  std::vector<LeftoverWords> foreign;  ///< named like ours or near, but not ours: never touched
  std::vector<Quarantine> quarantined;
  std::set<std::string> live;  ///< experiments that run now, as far as this user can know
  /// Users, but root and the caller, of whom a virtrain lives: `live` knows nothing of its runs.
  std::set<unsigned> others;
};
BOOST_DESCRIBE_STRUCT(Leftovers, (), (left, foreign, quarantined, live, others))

/// A killed run whose experiment has to be marked interrupted in its results database.
struct DeadRun {
  std::string experiment;
  std::string database;  ///< empty: the journal is lost, nobody knows it
};
BOOST_DESCRIBE_STRUCT(DeadRun, (), (experiment, database))

/// The outcome of their removal.
struct Cleaned {
  std::vector<LeftoverWords> removed;
  std::vector<std::pair<LeftoverWords, std::string>> failed;  ///< with the reason
  std::vector<DeadRun> dead;                                  ///< whoever has marked one calls forget()
};
BOOST_DESCRIBE_STRUCT(Cleaned, (), (removed, failed, dead))

/// A file that more users may use than should.
struct LooseFile {
  std::filesystem::path path;
  unsigned mode = 0, allowed = 0;
};
BOOST_DESCRIBE_STRUCT(LooseFile, (), (path, mode, allowed))

/// Modes of what virtrain keeps on a host: journal, locks, logs of this run.
struct ModeReport {
  std::uint64_t files = 0;
  std::vector<LooseFile> loose;
  bool found_control = false;  ///< a file of mode 0644 that was planted among them
};
BOOST_DESCRIBE_STRUCT(ModeReport, (), (files, loose, found_control))

/// Devices of a host, who holds them, and what nvidia-smi says of them. By address.
struct DeviceListing {
  std::vector<HostDevice> devices;
  std::map<std::string, std::string> leases, quarantined;
  std::map<std::string, GpuReport> reports;
  std::vector<std::string> disagreements;  ///< of libvirt, a sentence each
};
BOOST_DESCRIBE_STRUCT(DeviceListing, (), (devices, leases, quarantined, reports, disagreements))

}  // namespace virtrain::vmctl
