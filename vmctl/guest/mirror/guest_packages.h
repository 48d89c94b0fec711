#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/system/subprocess.h"

namespace virtrain::vmctl {

/// For commands that only look, at an image or at thousands of small files: a disk that others use makes them
/// slow.
CommandOptions patient_look();

/// The path in a guest, where /lib, /bin and so on are links into /usr as on the host: supermin cannot make
/// folders of them.
std::string in_usr(const std::string& path);

/// Paths of the libraries in ldd's output. Throws Error(host_unable) naming a library that ldd did not find.
std::vector<std::string> parse_ldd(std::string_view program, std::string_view output);

/// Path to owning package of each line of `dpkg -S` ("libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6"), without
/// its architecture; diversion lines and lines of several owners' directories are left out.
std::map<std::string, std::string> parse_dpkg_search(std::string_view output);

/// Packages and files that programs of this host need in a mirror guest.
struct GuestNeeds {
  std::set<std::string> packages;
  std::set<std::string> unpackaged_files;  ///< real paths of libraries that no package owns
  /// Path to target: links made by alternatives or by hand, and one for each library that the host's linker
  /// finds by its configuration only (/usr/local, CUDA's toolkit).
  std::map<std::string, std::string> symlinks;
  std::uintmax_t library_bytes = 0;  ///< of all libraries, packaged or not
};

/// Maps the package of each "name_version_arch" to its version.
std::map<std::string, std::string> versions_of(const std::vector<std::string>& packages);

/// From the shared libraries of the programs and the packages that own them.
GuestNeeds find_needs(const std::vector<std::filesystem::path>& programs);

/// A host file that travels into the guest; its shared libraries' packages follow by themselves.
struct CarriedFile {
  std::filesystem::path source;
  std::string target;  ///< absolute path in the guest; executable
};

}  // namespace virtrain::vmctl
