#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "harness/hosts/attach_script.h"
#include "harness/hosts/travel_bundle.h"
#include "harness/scenario/host_list.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// Parts of attached machines that the run's ranks use.
struct AttachedNeeds {
  std::map<std::string, FarNeeds> of_machine = {};  ///< of its own, by its name
  bool mpirun = false;                              ///< some of their ranks are started by it
  std::vector<std::string> libraries = {};          ///< that our programs open when they run
};

/// An image of this machine's, which the others must have as well.
struct LocalPayload {
  std::string sha256;
  std::uint64_t bytes = 0;           ///< of the image
  std::uint64_t unpacked_bytes = 0;  ///< of the files in it
};

/// The things that the attached machines of a run have in common.
struct AttachedRun {
  AttachedNeeds needs;
  std::string folder_name;  ///< of the programs on each of them; nobody can foresee it
  std::once_flag packed = {};
  TravelBundle bundle = {};
  std::map<std::string, LocalPayload> payloads = {};  ///< that machines need, by their paths
};

/// A machine that somebody else made, as a host that makes one node: itself. Its launcher starts a shell
/// there for each node, to which agent and programs are copied; all of it goes when the node is removed, or
/// by itself when either side is killed. Nothing else of that machine is looked at or changed, and what only
/// its host could tell is empty.
class AttachedHost : public vmctl::Host {
 public:
  /// The folder in which programs will lie there, by the machine's own preference.
  virtual std::vector<std::string> folders() const = 0;
  virtual void use_folder(const std::string& above) = 0;
  /// Which machine it is; two with the same identity are one.
  virtual const std::string& identity() const = 0;
};

/// Nothing is started yet; RunHosts::begin() looks at the machines.
std::vector<std::unique_ptr<AttachedHost>> attached_hosts(const std::vector<AttachedMachine>& machines,
                                                          AttachedNeeds needs = {});

}  // namespace virtrain::harness
