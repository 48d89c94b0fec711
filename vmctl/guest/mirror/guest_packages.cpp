#include "vmctl/guest/mirror/guest_packages.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "vmctl/guest/mirror/guest_driver.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view usr = "/usr";

/// Where a guest's linker looks: it has neither /etc/ld.so.conf nor a cache made of it.
constexpr std::array searched = {
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"};
constexpr std::string_view link_folder = "/usr/lib/x86_64-linux-gnu/";

/// dpkg knows files by the path they were packed with: with or without /usr where the two are merged.
std::vector<std::string> spellings(const std::string& path) {
  std::vector<std::string> both{path};
  if (std::string_view(path).starts_with(usr)) {
    both.push_back(path.substr(usr.size()));
  } else {
    both.push_back(std::string(usr) + path);
  }
  return both;
}

std::set<std::string> libraries_of(const std::vector<fs::path>& programs) {
  std::set<std::string> libraries;
  for (const auto& program : programs) {
    const auto result = run_command({"ldd", program.string()}, patient_look());
    if (result.exit_status != 0) {
      continue;  // a script or a static program
    }
    for (auto& library : parse_ldd(program.string(), result.out)) { libraries.insert(std::move(library)); }
  }
  for (const auto& library : opened_at_run_time({libraries.begin(), libraries.end()})) {
    libraries.insert(library.string());
  }
  return libraries;
}

}  // namespace

CommandOptions patient_look() {
  CommandOptions options;
  options.deadline = std::chrono::minutes(5);
  return options;
}

std::string in_usr(const std::string& path) {
  for (const auto* merged : {"/bin/", "/sbin/", "/lib/", "/lib64/"}) {
    if (path.starts_with(merged)) { return std::string(usr) + path; }
  }
  return path;
}

std::vector<std::string> parse_ldd(std::string_view program, std::string_view output) {
  std::vector<std::string> libraries;
  for (const auto& raw : split(output, '\n')) {
    const std::string line(trim(raw));
    if (line.find("=> not found") != std::string::npos) {
      throw Error("find the libraries of " + std::string(program), ErrorCode::host_unable,
                  line.substr(0, line.find(' ')) + " is missing; install the package that has it");
    }
    const auto slash = line.find('/');
    if (slash == std::string::npos) {
      continue;  // linux-vdso
    }
    libraries.push_back(line.substr(slash, line.rfind(" (0x") - slash));
  }
  return libraries;
}

std::map<std::string, std::string> parse_dpkg_search(std::string_view output) {
  std::map<std::string, std::string> owners;
  for (const auto& line : split(output, '\n')) {
    const auto colon = line.find(": ");
    if (colon == std::string::npos || line.starts_with("diversion by ")) { continue; }
    const std::string owner = line.substr(0, colon);
    if (owner.find(',') != std::string::npos) { continue; }
    owners[line.substr(colon + 2)] = owner.substr(0, owner.find(':'));
  }
  return owners;
}

GuestNeeds find_needs(const std::vector<fs::path>& programs) {
  const auto libraries = libraries_of(programs);
  std::vector<std::string> query{"dpkg", "-S"};
  for (const auto& library : libraries) {
    for (const auto& path : {library, fs::canonical(library).string()}) {
      for (auto& spelling : spellings(path)) { query.push_back(std::move(spelling)); }
    }
  }
  GuestNeeds needs;
  if (libraries.empty()) { return needs; }
  // It exits 1 as soon as one path is unknown, and one spelling of each is.
  const auto owners = parse_dpkg_search(run_command(query, patient_look()).out);

  const auto owner_of = [&](const std::string& path) -> std::string {
    for (const auto& spelling : spellings(path)) {
      if (const auto found = owners.find(spelling); found != owners.end()) { return found->second; }
    }
    return {};
  };
  for (const auto& library : libraries) {
    const std::string real = fs::canonical(library).string();
    if (const auto owner = owner_of(real); owner.empty()) {
      needs.unpackaged_files.insert(real);
    } else {
      needs.packages.insert(owner);
    }
    needs.library_bytes += fs::file_size(real);
    const auto link_owner = owner_of(library);
    if (!link_owner.empty()) { needs.packages.insert(link_owner); }
    const fs::path path = library;
    if (std::ranges::find(searched, path.parent_path()) == searched.end()) {
      needs.symlinks[std::string(link_folder) + path.filename().string()] = real;
    } else if (link_owner.empty() && fs::is_symlink(library)) {
      needs.symlinks[in_usr(library)] = real;
    }
  }
  return needs;
}

std::map<std::string, std::string> versions_of(const std::vector<std::string>& packages) {
  std::map<std::string, std::string> versions;
  for (const auto& package : packages) {
    const auto words = split(package, '_');
    if (words.size() == 3) { versions[words[0]] = words[1]; }
  }
  return versions;
}

}  // namespace virtrain::vmctl
