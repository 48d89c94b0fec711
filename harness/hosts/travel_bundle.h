#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::harness {

/// Programs of ours with all that they need but a kernel and a shell: libraries, the loader that knows them,
/// and Open MPI's parts. They run where none of these is installed.
struct TravelBundle {
  std::string archive;               ///< a tar file packed by gzip
  std::string manifest_digest;       ///< SHA-256 of the file `manifest` in it, which has those of all others
  std::uint64_t unpacked_bytes = 0;  ///< that it takes on the other side
  bool has_mpi = false;              ///< ranks may be several
};

/// The agent, its remote shell and these programs, each by its name in the folder `bin`, with what they are
/// linked to and open: `libraries`, by their paths. Throws Error.
TravelBundle make_bundle(const std::vector<std::string>& programs,
                         const std::vector<std::string>& libraries = {});
/// Variables by which the programs of a bundle that was unpacked to `folder` find their parts, as a shell's
/// assignments.
std::vector<std::string> bundle_environment(const std::string& folder);

/// Words before a command that is not ours: it finds no part of a bundle, for the machine's own programs have
/// an Open MPI and libraries of theirs.
std::vector<std::string> outside_bundle();

}  // namespace virtrain::harness
