#include "harness/cli/make_payload.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <set>
#include <vector>

#include "common/error.h"
#include "common/files/file_hash.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/system/subprocess.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/scenario/payload_image.h"
#include "vmctl/api/payload.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours packing_deadline{2};

[[noreturn]] void refuse_source(const fs::path& source, const std::string& why) {
  throw Error("make a payload of " + printable(source.string()), ErrorCode::bad_input,
              printable(source.string()) + ": " + why);
}

// --- images

template <typename Number>
Number number_at(std::string_view bytes, std::size_t at) {
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

std::string bytes_at(int file, off_t at, std::size_t count) {
  std::string bytes(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const auto got = ::pread(file, bytes.data() + have, count - have, at + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) { continue; }
    if (got <= 0) { break; }
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

struct Part {
  off_t begin = 0, size = 0;
};

/// The squashfs of the primary system partition (github.com/sylabs/sif, version 1).
Part squashfs_in_sif(int file, const fs::path& source) {
  constexpr std::size_t header_bytes = 128, descriptor_bytes = 585, most_descriptors = 1000;
  constexpr std::size_t total_at = 88, offset_at = 96;
  constexpr std::size_t used_at = 4, file_offset_at = 17, file_size_at = 25, extra_at = 201;
  constexpr std::int32_t is_partition = 0x4004, of_squashfs = 1, of_system = 2;
  const auto header = bytes_at(file, 0, header_bytes);
  if (header.size() < header_bytes) { refuse_source(source, "its header is cut off"); }
  const auto total = number_at<std::int64_t>(header, total_at),
             at = number_at<std::int64_t>(header, offset_at);
  if (total < 0 || at < 0) { refuse_source(source, "its header is damaged"); }
  for (std::int64_t i = 0; i < std::min<std::int64_t>(total, most_descriptors); ++i) {
    const auto one = bytes_at(file, at + i * static_cast<std::int64_t>(descriptor_bytes), descriptor_bytes);
    if (one.size() < descriptor_bytes) { break; }
    if (number_at<std::int32_t>(one, 0) != is_partition || one[used_at] == 0 ||
        number_at<std::int32_t>(one, extra_at) != of_squashfs ||
        number_at<std::int32_t>(one, extra_at + sizeof(std::int32_t)) != of_system) {
      continue;
    }
    return {number_at<std::int64_t>(one, file_offset_at), number_at<std::int64_t>(one, file_size_at)};
  }
  refuse_source(source,
                "it has no system partition that is a squashfs (an encrypted or a writable image has none)");
}

void copy_part(int from, Part part, const NewFile& output) {
  constexpr const char* operation = "write the payload";
  while (part.size > 0) {
    constexpr off_t at_once = 1 << 20;
    const auto bytes = bytes_at(from, part.begin, static_cast<std::size_t>(std::min(part.size, at_once)));
    if (bytes.empty()) { throw Error(operation, ErrorCode::bad_input, "the image is cut off"); }
    for (std::size_t done = 0; done < bytes.size();) {
      const auto wrote = ::write(output.descriptor(), bytes.data() + done, bytes.size() - done);
      if (wrote < 0 && errno != EINTR) { throw errno_error(operation, errno); }
      done += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
    }
    part.begin += static_cast<off_t>(bytes.size());
    part.size -= static_cast<off_t>(bytes.size());
  }
}

std::string take_out_of_image(const fs::path& source, const NewFile& output) {
  const auto file = open_to_read(source);
  if (!file) { refuse_source(source, std::string("it cannot be read: ") + std::strerror(errno)); }
  constexpr std::size_t header_bytes = 128;
  const auto begin = bytes_at(file.get(), 0, header_bytes);
  Part part{0, static_cast<off_t>(fs::file_size(source))};
  const bool has_partitions = is_sif(begin);
  if (has_partitions) {
    part = squashfs_in_sif(file.get(), source);
  } else if (!vmctl::is_squashfs(begin)) {
    refuse_source(
        source,
        "it is neither a folder nor an image with a squashfs (allowed: a root file system, a folder with "
        "programs, a virtual environment, a .sif of Apptainer's, a .sqsh of enroot's)");
  }
  if (!vmctl::is_squashfs(bytes_at(file.get(), part.begin, header_bytes))) {
    refuse_source(source, "its system partition is not a squashfs");
  }
  copy_part(file.get(), part, output);
  return has_partitions ? "Apptainer image" : "squashfs image";
}

// --- folders

/// Paths of this host that go in, as they are here.
class Packing {
 public:
  /// With all below it, and the links that lead to it.
  void add(const fs::path& path) {
    std::error_code failed;
    const auto real = fs::canonical(path, failed);
    if (failed) { return; }
    add_links(path);
    if (!names_.insert(real.string()).second) { return; }
    if (!fs::is_directory(real)) { return; }
    for (auto entry = fs::recursive_directory_iterator(real, fs::directory_options::skip_permission_denied);
         entry != fs::recursive_directory_iterator(); ++entry) {
      const auto& inner = entry->path();
      if (inner.filename() == "__pycache__" && entry->is_directory()) { entry.disable_recursion_pending(); }
      names_.insert(inner.string());
      if (entry->is_symlink()) { add_target(inner, real); }
      if (is_elf(*entry)) { programs_.push_back(inner.string()); }
    }
  }

  void add_program(const fs::path& program) {
    add(program);
    programs_.push_back(fs::canonical(program).string());
  }

  /// The libraries of all programs and libraries so far, with the loader.
  void add_libraries() {
    constexpr std::size_t at_once = 200;
    std::set<std::string> found;
    for (std::size_t begin = 0; begin < programs_.size(); begin += at_once) {
      std::vector<std::string> command{"ldd"};
      for (auto i = begin; i < std::min(programs_.size(), begin + at_once); ++i) {
        command.push_back(programs_[i]);
      }
      CommandOptions options;
      options.deadline = std::chrono::minutes(10);
      options.max_output_bytes = std::size_t{64} << 20;
      // "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x…)", "\t/lib64/ld-linux-x86-64.so.2 (0x…)"
      for (const auto& line : split(run_command(command, options).out, '\n')) {
        if (!line.starts_with('\t')) { continue; }
        const auto words = virtrain::words_of(trim(line));
        for (const auto& word : words) {
          if (word.starts_with('/')) { found.insert(std::string(word)); }
        }
      }
    }
    for (const auto& library : found) {
      const auto name = fs::path(library).filename().string();
      // Those of the driver must be its kernel module's: the node has them.
      if (vmctl::is_of_gpu_driver(name)) { continue; }
      add(library);
    }
  }

  /// Names for tar, each path from "/" on.
  std::string list() const {
    std::string text;
    for (const auto& name : names_) { text += name.substr(1) + '\0'; }
    return text;
  }

 private:
  static bool is_elf(const fs::directory_entry& entry) {
    std::error_code failed;
    if (!entry.is_regular_file(failed) || entry.is_symlink(failed)) { return false; }
    const auto name = entry.path().filename().string();
    const bool may_be = name.find(".so") != name.npos ||
                        (fs::status(entry).permissions() & fs::perms::owner_exec) != fs::perms::none;
    if (!may_be) { return false; }
    const UniqueFd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    return file && bytes_at(file.get(), 0, 4) ==
                       "\x7f"
                       "ELF";
  }

  /// Each link on the way to a path that is there, by its place and not by another link's.
  void add_links(const fs::path& path) {
    const auto plain = fs::absolute(path).relative_path();
    fs::path at = "/";
    for (auto part = plain.begin(); part != plain.end(); ++part) {
      at = *part == ".." ? at.parent_path() : *part == "." ? at : at / *part;
      if (!fs::is_symlink(at)) { continue; }
      names_.insert(at.string());
      const auto target = fs::read_symlink(at);
      auto onward = target.is_absolute() ? target : at.parent_path() / target;
      for (++part; part != plain.end(); ++part) { onward /= *part; }
      return add_links(onward);
    }
  }

  /// A link out of the folder needs what it leads to.
  void add_target(const fs::path& link, const fs::path& folder) {
    std::error_code failed;
    const auto real = fs::canonical(link, failed);
    if (failed || real.string().starts_with(folder.string() + "/")) { return; }
    if (fs::is_regular_file(real)) { add_program_or_file(link); }
  }
  void add_program_or_file(const fs::path& path) {
    add(path);
    if (is_elf(fs::directory_entry(fs::canonical(path)))) {
      programs_.push_back(fs::canonical(path).string());
    }
  }

  std::set<std::string> names_;
  std::vector<std::string> programs_;
};

using Words = std::vector<std::string>;

/// Leads to the open file, whatever becomes of its name.
std::string path_of(const NewFile& file) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), file.descriptor());
}

/// The image that is made, and whether somebody has said stop meanwhile.
struct Output {
  NewFile file;
  const Cancelled& cancelled;
};

/// Runs mksquashfs on a folder, or, behind a command that writes an archive, on that.
void pack(const std::string& from, const Output& output, const Words& more, const std::string& archive = {},
          const std::string& names = {}) {
  if (on_path("mksquashfs").empty()) {
    throw Error("make a payload", ErrorCode::host_unable,
                "mksquashfs is not installed (apt-get install squashfs-tools)");
  }
  // The same files make the same bytes.
  Words words{"mksquashfs", from,        path_of(output.file),
              "-noappend",  "-quiet",    "-no-progress",
              "-all-root",  "-all-time", "0",
              "-mkfs-time", "0",         "-no-xattrs",
              "-comp",      "zstd",      "-Xcompression-level",
              "3"};
  words.insert(words.end(), more.begin(), more.end());
  std::string line = archive.empty() ? "exec" : archive + " |";
  for (const auto& word : words) { line += " " + shell_word(word); }
  CommandOptions options;
  options.deadline = packing_deadline;
  options.input = names;
  // Thrown from here, run_command() ends the whole pipeline.
  options.next_signal = [&output] {
    end_if(output.cancelled, "make a payload");
    return 0;
  };
  run_checked({"bash", "-o", "pipefail", "-c", line}, options);
}

/// Files that the names of neighbours are laid over.
constexpr const char* name_files[] = {"/etc/hosts", "/etc/resolv.conf"};

bool is_root(const fs::path& folder) {
  const auto has_loader = [&](const char* name) {
    for (const auto& entry : entry_names(folder / name)) {
      if (entry.starts_with("ld-linux") || entry.starts_with("ld-musl") || entry.starts_with("ld64")) {
        return true;
      }
    }
    return false;
  };
  return fs::exists(fs::symlink_status(folder / "bin/sh")) || has_loader("lib64") || has_loader("lib") ||
         has_loader("usr/lib64") || has_loader("usr/lib");
}

void pack_root(const fs::path& folder, const Output& output) {
  Words words;
  const auto has = [&](const char* path) { return fs::exists(fs::symlink_status(folder.string() + path)); };
  if (!has("/etc")) { words.insert(words.end(), {"-p", "/etc d 755 0 0"}); }
  for (const char* file : name_files) {
    if (!has(file)) { words.insert(words.end(), {"-p", fmt::format("{} f 644 0 0 true", file)}); }
  }
  pack(fs::canonical(folder).string(), output, words);
}

/// Writes the files that a payload has next to those of the host.
void write_extras(const fs::path& folder, const std::string& programs) {
  fs::create_directories(folder / "etc");
  for (const char* file : name_files) { write_file_atomically(folder.string() + file, "", 0644); }
  write_file_atomically(folder.string() + vmctl::payload_path_file, programs + "\n", 0644);
}

/// The interpreter of a virtual environment and the folders that it imports from.
void add_interpreter(const fs::path& folder, Packing& packing) {
  const auto python = folder / "bin/python3";
  constexpr const char* program =
      "import json,os,sys,sysconfig;"
      "p=sysconfig.get_paths;v={'base':sys.base_prefix,'platbase':sys.base_exec_prefix};"
      "i=sys.path+[p(vars=v)['stdlib'],p(vars=v)['platstdlib']];"
      "print(json.dumps([os.path.realpath(sys.executable)]+[x for x in i if os.path.isdir(x)]))";
  const auto told = run_checked({python.string(), "-I", "-c", program});
  const auto paths = parse_json_or_null(told.out, {.bytes = 1U << 20, .depth = 4, .values = 1000});
  if (!paths.is_array() || paths.empty()) { refuse_source(folder, "its bin/python3 says no paths"); }
  packing.add_program(python);
  for (const auto& path : paths) {
    if (path.is_string()) { packing.add(path.get<std::string>()); }
  }
}

void pack_folder(const fs::path& folder, bool is_environment, const Output& output) {
  for (const char* of_node : {"/tmp/", "/dev/", "/proc/", "/sys/"}) {
    if (fs::canonical(folder).string().starts_with(of_node)) {
      refuse_source(folder, fmt::format("jobs have {} from their node, and see this folder at its own path "
                                        "(move it elsewhere)",
                                        of_node));
    }
  }
  Packing packing;
  packing.add(folder);
  if (is_environment) { add_interpreter(folder, packing); }
  for (const char* shell : {"/bin/sh", "/usr/bin/env"}) {
    if (fs::exists(shell)) { packing.add_program(shell); }
  }
  packing.add_libraries();
  const auto real = fs::canonical(folder).string();
  const auto programs = fs::is_directory(folder / "bin") ? real + "/bin" : real;
  if (programs.find_first_of(":\n") != programs.npos) {
    refuse_source(folder, "a path with ':' cannot be searched for programs");
  }
  const PrivateFolder extras("make a payload");
  write_extras(extras.path(), programs);
  const auto archive = "tar --null --no-recursion -cf - -C / -T - -C " + shell_word(extras.path().string()) +
                       " ./.virtrain-path ./etc ./etc/hosts ./etc/resolv.conf";
  pack("-", output, {"-tar"}, archive, packing.list());
}

}  // namespace

MadePayload make_payload(const fs::path& source, const fs::path& output, const Cancelled& cancelled) {
  if (fs::exists(fs::symlink_status(output))) {
    throw Error("make a payload", ErrorCode::usage,
                fmt::format("{} exists (remove it, or name another: -o)", printable(output.string())));
  }
  Output made_here{NewFile(fs::absolute(output), 0644), cancelled};
  auto& file = made_here.file;
  MadePayload made;
  if (!fs::is_directory(source)) {
    made.kind = take_out_of_image(source, file);
    if (const auto why = squashfs_damage(path_of(file)); !why.empty()) { refuse_source(source, "it " + why); }
  } else if (fs::exists(source / "pyvenv.cfg")) {
    made.kind = "virtual environment";
    pack_folder(source, true, made_here);
  } else if (is_root(source)) {
    made.kind = "root file system";
    pack_root(source, made_here);
  } else {
    made.kind = "folder";
    pack_folder(source, false, made_here);
  }
  made.sha256 = sha256_of_file(path_of(file));
  made.bytes = fs::file_size(path_of(file));
  file.take_place();
  return made;
}

}  // namespace virtrain::harness
