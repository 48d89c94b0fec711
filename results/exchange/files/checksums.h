#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace virtrain::results {

/// The file of an evidence bundle that lists the hashes of all others, and the one that has its rows.
inline constexpr const char* checksums_name = "SHA256SUMS";
inline constexpr const char* records_name = "exchange.jsonl";
inline constexpr std::size_t longest_sums_bytes = std::size_t{32} << 20;

/// Checks files against SHA256SUMS. Every complaint is an Error(bad_input) that starts with the bundle's
/// name.
class Checksums {
 public:
  /// Parses lines "HASH  NAME", as sha256sum writes them; `bundle` is what messages call it.
  Checksums(std::string_view text, std::string bundle);
  /// Checks a file that is there.
  void check(const std::string& name, const std::string& sha256);
  /// Checks that all that is listed was there.
  void finish() const;
  /// The names that have not been checked.
  const std::map<std::string, std::string>& open() const { return open_; }

 private:
  std::string bundle_;
  std::map<std::string, std::string> open_;
};

/// Whether the folder is an evidence bundle that somebody unpacked.
bool is_unpacked_bundle(const std::filesystem::path& folder);
/// Checks all files that the folder's SHA256SUMS lists; follows no links and no path out of the folder.
void verify_unpacked_bundle(const std::filesystem::path& folder);
/// Whether it is a path below a folder: no "..", no absolute path, no odd bytes.
bool is_plain_path(std::string_view name);

}  // namespace virtrain::results
