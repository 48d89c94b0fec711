#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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

/// A device that could not be given back as it was: nobody gets it until a person says so.
struct Quarantine {
  std::string address;
  std::string reason;
  std::string since;  ///< ISO 8601
};

struct Leftovers {
  std::vector<LeftoverWords> left;     ///< ours, and no live owner
  std::vector<LeftoverWords> foreign;  ///< named like ours or near, but not ours: never touched
  std::vector<Quarantine> quarantined;
  std::set<std::string> live;  ///< experiments that run now, as far as this user can know
  /// Users, but root and the caller, of whom a virtrain lives: `live` knows nothing of its runs.
  std::set<unsigned> others;
};

/// The outcome of their removal.
struct Cleaned {
  std::vector<LeftoverWords> removed;
  std::vector<std::pair<LeftoverWords, std::string>> failed;  ///< with the reason
};

/// Marks an experiment interrupted in its results database (empty: the journal is lost, nobody knows it).
/// False: it still has to be marked.
using MarkInterrupted = std::function<bool(const std::string& database, const std::string& experiment)>;

/// A file that more users may use than should.
struct LooseFile {
  std::filesystem::path path;
  unsigned mode = 0, allowed = 0;
};

/// Modes of what virtrain keeps on a host: journal, locks, logs of this run.
struct ModeReport {
  std::uint64_t files = 0;
  std::vector<LooseFile> loose;
  bool found_control = false;  ///< a file of mode 0644 that was planted among them
};

/// Devices of a host, who holds them, and what nvidia-smi says of them. By address.
struct DeviceListing {
  std::vector<HostDevice> devices;
  std::map<std::string, std::string> leases, quarantined;
  std::map<std::string, GpuReport> reports;
  std::vector<std::string> disagreements;  ///< of libvirt, a sentence each
};

}  // namespace virtrain::vmctl
