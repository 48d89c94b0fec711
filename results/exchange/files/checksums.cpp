#include "results/exchange/files/checksums.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/files/file_hash.h"
#include "common/files/reading.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t hash_digits = 64;

template <typename... Args>
[[noreturn]] void refuse(const std::string& bundle, fmt::format_string<Args...> words, Args&&... args) {
  throw Error(bundle, ErrorCode::bad_input, fmt::format(words, std::forward<Args>(args)...));
}

}  // namespace

bool is_plain_path(std::string_view name) {
  constexpr std::size_t longest = 4096;
  if (name.empty() || name.size() > longest || printable(name) != name) { return false; }
  const auto parts = split(name, '/');
  return std::ranges::none_of(
      parts, [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

Checksums::Checksums(std::string_view text, std::string bundle) : bundle_(std::move(bundle)) {
  std::size_t number = 0;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    Scanner in(line);
    const std::string hash(in.take_while(is_hex_digit, hash_digits, hash_digits));
    const bool is_line = !hash.empty() && in.take("  ") && is_plain_path(in.rest());
    if (!is_line || !open_.emplace(in.rest(), hash).second) {
      refuse(bundle_, "line {} of {} is not \"SHA256  PATH\" with a path of its own", number, checksums_name);
    }
  }
}

void Checksums::check(const std::string& name, const std::string& sha256) {
  const auto found = open_.find(name);
  if (found == open_.end()) {
    refuse(bundle_, "{} is in the bundle and not in {}", excerpt(name), checksums_name);
  }
  if (found->second != sha256) {
    refuse(bundle_, "checksum mismatch: {} has SHA-256 {}, {} says {}; get a fresh copy of the bundle",
           excerpt(name), sha256, checksums_name, found->second);
  }
  open_.erase(found);
}

void Checksums::finish() const {
  if (open_.empty()) { return; }
  refuse(bundle_, "{} is listed in {} and missing from the bundle (files missing: {})",
         excerpt(open_.begin()->first), checksums_name, open_.size());
}

bool is_unpacked_bundle(const fs::path& folder) {
  const auto has = [&](const char* name) {
    std::error_code failure;
    return fs::is_regular_file(fs::symlink_status(folder / name, failure));
  };
  return has(checksums_name) && has(records_name) && has("manifest.json");
}

void verify_unpacked_bundle(const fs::path& folder) {
  std::error_code failure;
  const auto sums = folder / checksums_name;
  const auto text = read_file(sums, longest_sums_bytes);
  if (!text) { refuse(folder.string(), "{} cannot be read", checksums_name); }
  Checksums checksums(*text, folder.string());
  const auto listed = checksums.open();
  for (const auto& [name, hash] : listed) {
    fs::path part = folder;
    for (const auto& one : fs::path(name)) {
      part /= one;
      if (fs::is_symlink(fs::symlink_status(part, failure))) {
        refuse(folder.string(), "{} is a link; a bundle holds files only", excerpt(name));
      }
    }
    if (!fs::is_regular_file(part, failure)) { continue; }
    checksums.check(name, sha256_of_file(part));
  }
  checksums.finish();
  if (!listed.contains(records_name)) {
    refuse(folder.string(), "{} does not list {}", checksums_name, records_name);
  }
}

}  // namespace virtrain::results
