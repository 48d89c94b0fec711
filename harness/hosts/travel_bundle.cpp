#include "harness/hosts/travel_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "common/error.h"
#include "common/files/file_hash.h"
#include "common/files/new_file.h"
#include "common/files/user_folders.h"
#include "common/system/subprocess.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "vmctl/api/payload.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

constexpr const char* packing = "pack the programs that travel";
/// Those of CUDA are 1.5 GB before they are packed.
constexpr std::size_t most_archive_bytes = std::size_t{4} << 30;
constexpr std::chrono::minutes packing_deadline{10};

/// Libraries by their names, and the loader under its own.
struct Libraries {
  std::map<std::string, fs::path> files;
  std::string loader;
};

/// Asks for all of them at once: each by itself would take seconds.
void add_libraries(const std::vector<fs::path>& programs, Libraries& found) {
  std::vector<std::string> command{"ldd"};
  for (const auto& program : programs) { command.push_back(program.string()); }
  // "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)", "\t/lib64/ld-linux-x86-64.so.2 (0x…)"
  for (const auto& line : split(run_checked(command).out, '\n')) {
    const auto words = virtrain::words_of(trim(line));
    if (!line.starts_with('\t')) { continue; }
    if (words.size() >= 3 && words[1] == "=>") {
      if (vmctl::is_of_gpu_driver(words[0])) { continue; }
      if (words[2] == "not") {
        throw Error(packing, ErrorCode::host_unable,
                    fmt::format("one of this build's programs lacks the library {}", words[0]));
      }
      if (words[2].starts_with('/')) { found.files.emplace(words[0], std::string(words[2])); }
    } else if (!words.empty() && words[0].starts_with('/')) {
      const fs::path loader(words[0]);
      found.loader = loader.filename().string();
      found.files.emplace(found.loader, loader);
    }
  }
}

/// The folder of Open MPI's components here; empty where its version is none that can travel.
fs::path component_folder() {
  if (on_path("orted").empty() || on_path("mpirun.openmpi").empty() || on_path("ompi_info").empty()) {
    return {};
  }
  const auto told = run_command({"ompi_info", "--parsable", "--path", "pkglibdir"});
  constexpr std::string_view mark = "path:pkglibdir:";
  for (const auto& line : split(told.out, '\n')) {
    if (line.starts_with(mark)) { return line.substr(mark.size()); }
  }
  return {};
}

/// Those that drive adapters or schedulers need libraries of these, which stay here.
bool is_of_other_hardware(std::string_view name) {
  constexpr std::array<std::string_view, 16> parts{
      "ucx",      "ofi",    "psm",     "verbs", "openib", "slurm", "flux",   "jsm",
      "portals4", "romio3", "memheap", "spml",  "atomic", "scoll", "sshmem", "netlink"};
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.find(part) != name.npos; });
}

void link_file(const fs::path& what, const fs::path& at) {
  fs::create_symlink(fs::canonical(what), at);
}

std::string wrapper(const std::string& loader, const std::string& name) {
  return fmt::format(
      "#!/bin/sh\nexec \"$VIRTRAIN_BUNDLE/lib/{0}\" --library-path \"$VIRTRAIN_BUNDLE/lib\" --argv0 {1} "
      "\"$VIRTRAIN_BUNDLE/libexec/{1}\" \"$@\"\n",
      loader, name);
}

/// Digests of all files below the folder, as sha256sum reads them; adds up their sizes.
std::string manifest_of(const fs::path& folder, std::uint64_t& bytes) {
  std::map<std::string, std::string> digests;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!fs::is_regular_file(entry.path())) { continue; }
    digests[entry.path().lexically_relative(folder).string()] = sha256_of_file(fs::canonical(entry.path()));
    bytes += fs::file_size(entry.path());
  }
  std::string text;
  for (const auto& [name, digest] : digests) { text += fmt::format("{}  {}\n", digest, name); }
  return text;
}

}  // namespace

TravelBundle make_bundle(const std::vector<std::string>& programs,
                         const std::vector<std::string>& libraries) {
  TravelBundle bundle;
  const PrivateFolder folder(packing);
  std::map<std::string, fs::path> files;
  for (const char* name : {"virtrain-agent", "virtrain-rsh"}) { files.emplace(name, sibling_program(name)); }
  for (const auto& name : programs) {
    const fs::path path(name);  // of a program that is not ours
    files.emplace(path.filename().string(), path.is_absolute() ? path : sibling_program(name));
  }
  const auto components = component_folder();
  if (bundle.has_mpi = !components.empty(); bundle.has_mpi) {
    files.emplace("mpirun.openmpi", on_path("mpirun.openmpi"));
    files.emplace("orted", on_path("orted"));
  }
  for (const char* part : {"bin", "lib", "libexec", "mca", "share"}) {
    fs::create_directory(folder.path() / part);
  }
  std::vector<fs::path> linked;
  for (const auto& [name, program] : files) {
    if (name == vmctl::payload_program) {  // static
      link_file(program, folder.path() / "bin" / name);
      continue;
    }
    linked.push_back(program);
    link_file(program, folder.path() / "libexec" / name);
  }
  if (bundle.has_mpi) {
    for (const auto& entry : fs::directory_iterator(components)) {
      const auto name = entry.path().filename().string();
      if (!name.starts_with("mca_") || !name.ends_with(".so") || is_of_other_hardware(name)) { continue; }
      linked.push_back(entry.path());
      link_file(entry.path(), folder.path() / "mca" / name);
    }
    std::error_code none;
    for (const auto& entry : fs::directory_iterator("/usr/share/openmpi", none)) {
      const auto name = entry.path().filename().string();
      if (name.starts_with("help-")) { link_file(entry.path(), folder.path() / "share" / name); }
    }
  }
  Libraries found;
  for (const fs::path library : libraries) {
    const auto name = library.filename().string();
    if (vmctl::is_of_gpu_driver(name) || !found.files.emplace(name, library).second) { continue; }
    linked.push_back(library);
  }
  add_libraries(linked, found);
  if (found.loader.empty()) {
    throw Error(packing, ErrorCode::host_unable, "the programs of this build name no loader");
  }
  files.erase(vmctl::payload_program);
  for (const auto& [name, program] : files) {
    write_file_atomically(folder.path() / "bin" / name, wrapper(found.loader, name), 0755);
  }
  for (const auto& [name, file] : found.files) { link_file(file, folder.path() / "lib" / name); }
  const auto manifest = manifest_of(folder.path(), bundle.unpacked_bytes);
  bundle.manifest_digest = sha256(manifest);
  write_file_atomically(folder.path() / "manifest", manifest, 0600);
  CommandOptions options;
  options.deadline = packing_deadline;
  options.max_output_bytes = most_archive_bytes;
  bundle.archive =
      run_checked({"tar", "--create", "--dereference", "--owner=0", "--group=0", "--format=ustar",
                   "--use-compress-program=gzip -1", "--directory", folder.path().string(), "."},
                  options)
          .out;
  return bundle;
}

std::vector<std::string> bundle_environment(const std::string& folder) {
  return {"VIRTRAIN_BUNDLE=" + folder, "PATH=" + folder + "/bin:$PATH", "TMPDIR=" + folder + "/tmp",
          "OPAL_PKGLIBDIR=" + folder + "/mca", "OPAL_PKGDATADIR=" + folder + "/share",
          "OPAL_SYSCONFDIR=" + folder + "/share", "PMIX_PKGLIBDIR=" + folder + "/mca",
          // Its components look for ssh otherwise, also where all ranks are on one machine.
          "OMPI_MCA_plm_rsh_agent=virtrain-rsh",
          // The driver keeps what it has compiled in the user's home otherwise.
          "CUDA_CACHE_PATH=" + folder + "/tmp/cuda"};
}

std::vector<std::string> outside_bundle() {
  return {"sh", "-c",
          "PATH=${PATH#\"$VIRTRAIN_BUNDLE/bin:\"}; unset OPAL_PKGLIBDIR OPAL_PKGDATADIR OPAL_SYSCONFDIR "
          "PMIX_PKGLIBDIR OMPI_MCA_plm_rsh_agent; exec \"$@\"",
          "sh"};
}

}  // namespace virtrain::harness
