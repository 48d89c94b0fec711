#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"

namespace virtrain::vmctl {

/// Claims of this host's runs right now, whichever state folder each of them journals in: "core:3",
/// "device:0000:17:00.0", "experiment:<id>". A claim is a locked file in a folder that belongs to the host
/// and that no other user can enter, so none can be forged, and a process that dies in any way has none left.
///
/// Root's claims are /run/virtrain; a user's are that user's alone (/run/user/<uid>, else /tmp): a folder
/// that all users share would let any of them stop everybody. Hence runs of different users do not see each
/// other's cores.
class HostClaims {
 public:
  /// `folder`: see claims_folder(); others in tests.
  explicit HostClaims(std::filesystem::path folder);
  HostClaims(const HostClaims&) = delete;
  HostClaims& operator=(const HostClaims&) = delete;
  ~HostClaims() { release(); }

  /// Takes all or none: Error(busy) with who holds one. `owner` is what others are told then.
  void take(const std::vector<std::string>& names, const std::string& owner);
  void release();

 private:
  std::filesystem::path folder_;
  std::map<std::string, UniqueFd> held_;
};

/// Begins the claim of a live experiment's id.
inline constexpr const char* experiment_claim = "experiment:";

/// This user's folder; the call does not make it.
std::filesystem::path claims_folder();

/// Claims that any process holds, this one included.
std::vector<std::string> held_claims(const std::filesystem::path& folder);

/// "core:3" of "core:" as "3": what of this kind somebody holds.
std::vector<std::string> held_claims(const std::filesystem::path& folder, const std::string& kind);

}  // namespace virtrain::vmctl
