#include "harness/scenario/payload_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/payload.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

/// Folders of programs in nodes.
constexpr std::string_view path_of_nodes = std::string_view(vmctl::node_path).substr(sizeof "PATH=" - 1);

/// One name in an image.
struct Entry {
  char kind;           ///< as ls -l begins: 'd', 'l', '-'
  std::string target;  ///< of a link
  bool may_run = false;
};

class Image {
 public:
  explicit Image(fs::path file) : file_(std::move(file)) {}

  /// Nothing where the image has no such path.
  std::optional<Entry> look(const std::string& path) const {
    const auto told =
        run_command({"unsquashfs", "-lls", "-d", "", file_.string(), path.substr(1)}, options());
    // "lrwxrwxrwx root/root  10 2024-01-01 00:00 /usr/bin/python3 -> python3.11"
    for (const auto& line : split(told.out, '\n')) {
      constexpr std::size_t words_before_name = 5, mode_letters = 9;
      const auto at = line.find(" " + path);
      if (at == line.npos || virtrain::words_of(line).size() <= words_before_name) { continue; }
      const auto rest = line.substr(at + 1 + path.size());
      constexpr std::string_view arrow = " -> ";
      if (line[0] == 'l' && rest.starts_with(arrow)) { return Entry{'l', rest.substr(arrow.size())}; }
      if (rest.empty()) {
        return Entry{line[0], {}, line.substr(1, mode_letters).find_first_of("xst") != line.npos};
      }
    }
    return std::nullopt;
  }

  /// The file that a path leads to, over links within the image; empty: none.
  std::string resolve(const std::string& path) const {
    std::string left = path, at;
    for (int links = 0; links < 40;) {
      while (left.starts_with('/')) { left.erase(0, 1); }
      if (left.empty()) { return at; }
      const auto slash = left.find('/');
      const auto name = left.substr(0, slash);
      left = slash == left.npos ? "" : left.substr(slash);
      if (name == ".") { continue; }
      if (name == "..") {
        at = at.substr(0, at.rfind('/') == at.npos ? 0 : at.rfind('/'));
        continue;
      }
      const auto next = std::string(at).append("/").append(name);
      const auto entry = look(next);
      if (!entry) { return {}; }
      if (entry->kind != 'l') {
        at = next;
        continue;
      }
      ++links;
      left.insert(0, entry->target);
      if (entry->target.starts_with('/')) { at.clear(); }
    }
    return {};
  }

  bool may_run(const std::string& path) const {
    const auto entry = look(path);
    return entry && entry->may_run;
  }

  /// Why unsquashfs cannot read it; empty: it can.
  std::string damage() const {
    const auto told = run_command({"unsquashfs", "-lls", file_.string(), "."}, options());
    return told.exit_status == 0 ? "" : excerpt(trim(told.err.empty() ? told.out : told.err));
  }

  std::string begin_of(const std::string& path) const {
    return run_command({"unsquashfs", "-cat", file_.string(), path.substr(1)}, options()).out;
  }

 private:
  static CommandOptions options() {
    constexpr std::size_t enough = 64U << 10;
    CommandOptions options;
    options.max_output_bytes = enough;
    return options;
  }

  fs::path file_;
};

unsigned machine_of(std::string_view elf) {
  constexpr std::size_t low = 18, high = 19;
  return static_cast<unsigned char>(elf[low]) | static_cast<unsigned>(static_cast<unsigned char>(elf[high]))
                                                    << 8U;
}

/// The program that the kernel starts for this one, as its header says; empty: it needs none. Of a header
/// that goes beyond these bytes nothing is known.
std::string interpreter_of(std::string_view elf) {
  const auto number_at = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes && at + i < elf.size(); ++i) {
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(elf[at + i])) << (8 * i);
    }
    return number;
  };
  constexpr std::size_t table_at = 32, entry_bytes_at = 54, entries_at = 56;  // of a header of 64 bits
  constexpr std::size_t offset_at = 8, size_at = 32;                          // of an entry
  constexpr std::uint64_t interpreter = 3, most_entries = 100;
  const auto table = number_at(table_at, 8), bytes = number_at(entry_bytes_at, 2);
  for (std::uint64_t i = 0; i < std::min(number_at(entries_at, 2), most_entries) && table < elf.size(); ++i) {
    const auto entry = table + i * bytes;
    const auto from = number_at(entry + offset_at, 8), size = number_at(entry + size_at, 8);
    if (number_at(entry, 4) != interpreter || from >= elf.size() || size > elf.size() - from) { continue; }
    const auto path = elf.substr(from, size);
    return std::string(path.substr(0, path.find('\0')));
  }
  return {};
}

/// Why the program cannot start; `depth`: scripts have interpreters, which may be scripts.
std::string refusal_of_program(const Image& image, const std::string& program, int depth = 0) {
  std::vector<std::string> tried;
  if (program.find('/') != program.npos) {
    if (!program.starts_with('/')) {
      return fmt::format("'{}' is neither absolute nor a plain name", excerpt(program));
    }
    tried = {program};
  } else {
    auto folders = split(std::string(trim(image.begin_of(vmctl::payload_path_file))), ':');
    for (auto& folder : split(std::string(path_of_nodes), ':')) { folders.push_back(folder); }
    for (const auto& folder : folders) {
      if (folder.starts_with('/')) { tried.push_back(std::string(folder).append("/").append(program)); }
    }
  }
  std::string file;
  for (const auto& path : tried) {
    if (file = image.resolve(path); !file.empty()) { break; }
  }
  if (file.empty()) { return fmt::format("has no {} (looked for: {})", excerpt(program), join(tried, ", ")); }
  if (!image.may_run(file)) {
    return fmt::format("has {}, which is not executable (chmod +x)", excerpt(file));
  }
  constexpr std::size_t elf_bytes = 20;
  const auto begin = image.begin_of(file);
  if (begin.starts_with("#!") && depth < 4) {
    const auto line = begin.substr(2, begin.find('\n') - 2);
    const auto words = virtrain::words_of(line);
    if (words.empty()) { return ""; }
    auto refusal = refusal_of_program(image, std::string(words[0]), depth + 1);
    // "#!/usr/bin/env python3": it looks for that as the command is looked for.
    const bool names_program = words.size() > 1 && words[0].ends_with("/env") && words[1][0] != '-' &&
                               words[1].find('=') == words[1].npos;
    if (refusal.empty() && names_program) {
      refusal = refusal_of_program(image, std::string(words[1]), depth + 1);
    }
    return refusal;
  }
  if (!begin.starts_with("\x7f"
                         "ELF") ||
      begin.size() < elf_bytes) {
    return fmt::format("has {}, which is not a program", excerpt(file));
  }
  if (machine_of(begin) == elf_machine) {
    const auto interpreter = interpreter_of(begin);
    if (interpreter.empty() || !image.resolve(interpreter).empty()) { return {}; }
    return fmt::format(
        "has {} without {}, which starts it (a root file system or virtrain payload make has it)",
        excerpt(file), excerpt(interpreter));
  }
  return fmt::format("has {} for {}, and this build is for {}", excerpt(file),
                     machine_name(machine_of(begin)), machine_name(elf_machine));
}

}  // namespace

std::string machine_name(unsigned machine) {
  switch (machine) {
    case 3:
      return "x86 of 32 bits";
    case 40:
      return "arm of 32 bits";
    case 62:
      return "x86-64";
    case 183:
      return "aarch64";
    case 243:
      return "riscv";
    default:
      return fmt::format("machine {} of ELF's", machine);
  }
}

bool is_sif(std::string_view bytes) {
  constexpr std::size_t mark_at = 32;
  return bytes.size() > mark_at && bytes.substr(mark_at).starts_with("SIF_MAGIC");
}

std::string squashfs_damage(const fs::path& image) {
  const auto why = Image(image).damage();
  return why.empty() ? "" : fmt::format("is damaged, or was not copied whole: unsquashfs says {}", why);
}

std::string payload_refusal(const fs::path& image, const std::string& program) {
  const auto file = open_to_read(image);
  if (!file) {
    return fmt::format("cannot be read: {} (make it: virtrain payload make FOLDER -o {})",
                       errno == EINVAL || errno == EISDIR ? "it is not a regular file" : std::strerror(errno),
                       excerpt(image.string()));
  }
  const auto begin = read_at_most(file.get(), vmctl::squashfs_header_bytes).value_or("");
  if (!vmctl::is_squashfs(begin)) {
    return is_sif(begin)
               ? "is an Apptainer image, which holds a squashfs (take it out: virtrain payload make "
                 "IMAGE.sif -o "
                 "env.sqfs)"
               : "is not a squashfs image (make one: virtrain payload make FOLDER -o env.sqfs)";
  }
  if (on_path("unsquashfs").empty()) {
    return "cannot be looked into: unsquashfs is not installed (apt-get install squashfs-tools)";
  }
  if (auto damage = squashfs_damage(image); !damage.empty()) { return damage; }
  return refusal_of_program(Image(image), program);
}

std::uint64_t unpacked_payload_bytes(const fs::path& image) {
  CommandOptions options;
  options.deadline = std::chrono::minutes(10);
  options.max_output_bytes = std::size_t{256} << 20;
  std::uint64_t bytes = 0;
  // "-rw-r--r-- 0/0  5120 2024-01-01 00:00 squashfs-root/usr/bin/python3"
  for (const auto& line : split(run_checked({"unsquashfs", "-lln", image.string()}, options).out, '\n')) {
    if (!line.starts_with('-')) { continue; }
    constexpr std::size_t size_at = 2;
    const auto words = virtrain::words_of(line);
    const auto size = words.size() > size_at ? parse_integer(words[size_at]) : std::nullopt;
    bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, size.value_or(0)));
  }
  return bytes;
}

}  // namespace virtrain::harness
