#pragma once

#include <memory>
#include <vector>

#include "common/files/file_search.h"
#include "common/system/locked_page.h"
#include "vmctl/api/leftover.h"
#include "vmctl/host/run_state.h"

namespace virtrain::vmctl {

/// Files and memory of this host with a canary, where no node should see them. Files are in the journal, so
/// that `clean` removes what a killed run leaves.
class PlantedFiles {
 public:
  /// Below the user's home and the state folder, and as root in /etc. Returns where.
  std::vector<std::filesystem::path> plant(RunState& run, const Canary& canary);
  /// A page of this process; returns its physical address. Throws Error.
  std::uint64_t plant_in_memory(const Canary& canary);
  void remove(RunState& run);

 private:
  std::unique_ptr<LockedPage> page_;
  std::vector<std::pair<std::filesystem::path, std::int64_t>> files_;
};

/// Searches where runs leave something: state, cache, claims, what libvirt and QEMU keep, shared memory.
/// `control` is in a file among them for as long as that takes.
SearchReport search_leftovers(const RunState& run, const std::vector<Canary>& canaries,
                              const Canary& control);

/// Against the modes of docs/security.md.
ModeReport check_modes(const RunState& run);

}  // namespace virtrain::vmctl
