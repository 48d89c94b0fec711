#include "harness/hosts/attach_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t longest_fact = 200;

/// Ends everything that has the folder in its environment, as the agent and all that it started have, and
/// removes the folder. What is still being unpacked may make files meanwhile, so look again.
constexpr const char* clean_function = R"sh(
virtrain_clean() {
  for round in 1 2 3 4 5 6 7 8 9 10; do
    for place in $(grep -sl "VIRTRAIN_BUNDLE=$1" /proc/[0-9]*/environ); do
      place=${place#/proc/}
      kill -9 "${place%/environ}" 2>/dev/null
    done
    rm -rf "$1"
    [ -e "$1" ] || return 0
    sleep 1
  done
  return 1
}
)sh";

}  // namespace

std::vector<std::string> attach_words(std::vector<std::string> launcher) {
  if (std::filesystem::path(launcher[0]).filename() == "ssh") {
    // Where an option is there twice, ssh takes the first.
    const std::vector<std::string> options{"-o", "BatchMode=yes",         "-o", "ConnectTimeout=10",
                                           "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
                                           "-o", "ControlMaster=no"};
    launcher.insert(launcher.begin() + 1, options.begin(), options.end());
  }
  launcher.emplace_back("sh");
  return launcher;
}

bool asks_for_password(std::string_view said) {
  const auto text = lower(std::string(said));
  const auto has = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  return has("password") || has("passphrase") || has("permission denied (") || has("terminal is required") ||
         has("askpass");
}

std::string begin_line(const std::string& nonce) {
  return "virtrain-begin " + nonce;
}

std::string end_line(const std::string& nonce) {
  return "virtrain-end " + nonce;
}

std::string probe_script(const std::string& nonce, const FarNeeds& needs) {
  std::vector<std::string> programs;
  for (const auto& name : needs.programs) { programs.push_back(shell_word(name)); }
  // df -P: the fourth column is free space in KiB; below a changed root it finds no mount point. The longest
  // mount point that a folder begins with is its own.
  return "{ LC_ALL=C; export LC_ALL; echo; echo " + begin_line(nonce) + R"sh(
[ ! -t 0 ] && [ ! -t 1 ] || echo terminal yes
[ -r /proc/self/environ ] && echo proc yes
for tool in uname tar gzip head mkdir mkfifo rm sha256sum cat grep sleep env; do
  command -v $tool >/dev/null 2>&1 || echo missing $tool
done
echo architecture "$(uname -m 2>/dev/null)"
echo kernel "$(uname -r 2>/dev/null)"
echo system "$(uname -s 2>/dev/null)"
echo libc "$({ getconf GNU_LIBC_VERSION || ldd --version || true; } 2>&1 | head -n 1)"
echo identity "$(cat /etc/machine-id 2>/dev/null) $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
for folder in "$TMPDIR" /tmp /var/tmp /dev/shm; do
  case $folder in /*) ;; *) continue ;; esac
  [ -d "$folder" ] && [ -w "$folder" ] && [ -x "$folder" ] || continue
  best=; flags=
  while read -r device point kind options rest; do
    case "$folder/" in "${point%/}"/*) ;; *) continue ;; esac
    [ ${#point} -lt ${#best} ] || { best=$point; flags=$options; }
  done < /proc/self/mounts
  case ",$flags," in *,noexec,*) execute=no ;; *) execute=yes ;; esac
  free=$(set -- $(stat -f -c "%a %S" "$folder"); [ "$2" ] && echo $(($1 * $2 / 1024)))
  [ "$free" ] || free=$(df -P -k "$folder" | { read -r line; read -r device size used free rest; echo "$free"; })
  echo folder "${free:--}" $execute "$folder"
done
cd /proc
for program in )sh" +
         join(programs, " ") + R"sh(; do
  command -v "$program" >/dev/null 2>&1 || echo absent "$program"
done
for file in /dev/nvidia[0-9]*; do [ -e "$file" ] && echo gpu yes; done
for folder in /lib /usr/lib /lib64 /usr/lib64 /lib/x86_64-linux-gnu /usr/lib/x86_64-linux-gnu; do
  [ -e $folder/libcuda.so.1 ] && echo cuda yes
done
grep -qs libcuda.so.1 /etc/ld.so.cache && echo cuda yes
echo )sh" +
         end_line(nonce) + "; } 2>/dev/null\n";
}

FarMachine parse_probe(const std::vector<std::string>& lines) {
  FarMachine machine;
  const std::map<std::string_view, std::string FarMachine::*> texts{
      {"architecture", &FarMachine::architecture},
      {"kernel", &FarMachine::kernel},
      {"system", &FarMachine::system},
      {"libc", &FarMachine::libc},
      {"identity", &FarMachine::identity}};
  for (const auto& line : lines) {
    const auto blank = std::min(line.find(' '), line.size());
    const auto name = std::string_view(line).substr(0, blank);
    const auto value = std::string(trim(std::string_view(line).substr(blank)));
    if (const auto text = texts.find(name); text != texts.end()) {
      machine.*text->second = printable(value.substr(0, longest_fact));
    } else if (name == "terminal") {
      machine.has_terminal = true;
    } else if (name == "proc") {
      machine.has_proc = true;
    } else if (name == "missing") {
      machine.missing.push_back(printable(value.substr(0, longest_fact)));
    } else if (name == "absent") {
      machine.absent.push_back(printable(value.substr(0, longest_fact)));
    } else if (name == "gpu") {
      ++machine.gpus;
    } else if (name == "cuda") {
      machine.has_cuda_driver = true;
    } else if (name == "folder") {
      const auto first = value.find(' ');
      const auto second = first == std::string::npos ? first : value.find(' ', first + 1);
      if (second == std::string::npos) { continue; }
      const auto free = value.substr(0, first);
      const auto kib = free == "-" ? std::optional<std::int64_t>(0) : parse_integer(free);
      const auto path = value.substr(second + 1);
      // It becomes part of commands and variables there.
      const auto is_plain = [](char c) {
        return is_letter(c) || is_digit(c) || c == '/' || c == '.' || c == '_' || c == '-';
      };
      constexpr std::size_t longest_path = 60;  // sockets and PATH need some of what there is
      if (!kib || *kib < 0 || path.size() > longest_path || !std::ranges::all_of(path, is_plain)) {
        continue;
      }
      machine.folders.push_back(
          {path, free == "-" ? std::nullopt : std::optional(static_cast<std::uint64_t>(*kib) << 10),
           value.substr(first + 1, second - first - 1) == "yes"});
    }
  }
  return machine;
}

std::vector<std::string> fit_folders(const FarMachine& machine, std::uint64_t needed_bytes) {
  std::vector<std::string> paths;
  for (const auto& folder : machine.folders) {
    if (folder.may_execute && folder.free_bytes.value_or(needed_bytes) >= needed_bytes) {
      paths.push_back(folder.path);
    }
  }
  return paths;
}

std::string why_unfit(const FarMachine& machine, std::string_view architecture, std::uint64_t needed_bytes) {
  if (machine.has_terminal) {
    return "the launcher gives a terminal, which changes bytes (for ssh use -T, for kubectl and docker exec "
           "-i "
           "without -t)";
  }
  if (machine.system != "Linux") {
    return fmt::format("it runs {}, and the agent needs Linux",
                       machine.system.empty() ? "a system that it does not name" : machine.system);
  }
  if (machine.architecture != architecture) {
    return fmt::format(
        "its architecture is {}, and this build's programs are for {} (attach from a machine of its "
        "own kind)",
        machine.architecture.empty() ? "not known" : machine.architecture, architecture);
  }
  if (!machine.has_proc) { return "it has no /proc, from which the agent reads (mount it there)"; }
  if (!machine.missing.empty()) {
    return fmt::format("it lacks {} (install it there; busybox has all of them)",
                       join(machine.missing, ", "));
  }
  if (!fit_folders(machine, needed_bytes).empty()) { return ""; }
  std::vector<std::string> found;
  for (const auto& folder : machine.folders) {
    found.push_back(fmt::format(
        "{} {}", folder.path,
        folder.may_execute ? "has " + format_size(folder.free_bytes.value_or(0)) : "is mounted noexec"));
  }
  return fmt::format("no folder there takes programs of {}: {} (free some room, or set TMPDIR there)",
                     format_size(needed_bytes), found.empty() ? "none may be written to" : join(found, ", "));
}

std::string why_lacking(const FarMachine& machine, const FarNeeds& needs) {
  if (!machine.absent.empty()) {
    return fmt::format(
        "it lacks {}, which workload.command starts (install it there, or write its absolute path)",
        join(machine.absent, ", "));
  }
  if (needs.gpus == 0) { return ""; }
  if (!machine.has_cuda_driver) {
    return "backend cuda needs NVIDIA's driver there, and its loader finds no libcuda.so.1 (install the "
           "driver; the "
           "libraries of CUDA travel)";
  }
  if (machine.gpus < needs.gpus) {
    return fmt::format("it has {} (/dev/nvidia0, …), and the scenario has {} in each node",
                       counted(machine.gpus, "GPU"), needs.gpus);
  }
  return "";
}

std::string payload_script(const std::string& nonce, const std::string& path) {
  return fmt::format(
      "{{ LC_ALL=C; export LC_ALL; echo; echo {0}\n"
      "command -v unsquashfs >/dev/null 2>&1 && echo unsquashfs yes\n"
      "[ -r {2} ] && echo sha256 \"$(sha256sum < {2})\"\n"
      "echo {1}; }} 2>/dev/null\n",
      begin_line(nonce), end_line(nonce), shell_word(path));
}

std::string why_no_payload(const std::vector<std::string>& lines, const std::string& path,
                           const std::string& sha256) {
  bool has_unsquashfs = false;
  std::string digest;
  for (const auto& line : lines) {
    const auto words = words_of(line);
    if (words.size() < 2) { continue; }
    if (words[0] == "unsquashfs") { has_unsquashfs = true; }
    if (words[0] == "sha256") { digest = printable(words[1].substr(0, longest_fact)); }
  }
  const auto way = "copy the file of this machine to the same path there: rsync, a shared folder, sbcast";
  if (digest.empty()) { return fmt::format("it cannot read {} ({})", printable(path), way); }
  if (digest != sha256) {
    return fmt::format("its {} has the SHA-256 {}, and the one here {} ({})", printable(path), digest, sha256,
                       way);
  }
  if (!has_unsquashfs) {
    return "it lacks unsquashfs, which unpacks workload.payload there (install squashfs-tools there)";
  }
  return "";
}

namespace {

/// Unpacks the payload and looks whether this user can enter it: a program that is not there is the answer of
/// a payload that was entered. unsquashfs ends with 2 where a device or an attribute could not be made.
std::string payload_part(const StartScript& wanted) {
  if (wanted.payload.empty()) { return ""; }
  return fmt::format(
      R"sh(echo "{digest}  -" > "$d/tmp/payload"
sha256sum -c "$d/tmp/payload" < {path} >/dev/null 2>&1 9>&- || virtrain_fail {changed}
why=$(env VIRTRAIN_BUNDLE="$d" unsquashfs -n -no-xattrs -d "$d{folder}" {path} 2>&1 >/dev/null 9>&-)
case $? in 0|2) ;; *) virtrain_fail "unsquashfs could not unpack the payload: $why" ;; esac
why=$("$d/bin/virtrain-payload" "$d{folder}" /.virtrain-none 2>&1 9>&-)
[ $? = 127 ] || virtrain_fail "the payload cannot be entered there: $why"
)sh",
      fmt::arg("digest", wanted.payload_sha256), fmt::arg("path", shell_word(wanted.payload)),
      fmt::arg("changed", shell_word("the payload " + wanted.payload + " is another file than it was")),
      fmt::arg("folder", far_payload_folder));
}

}  // namespace

std::string start_script(const StartScript& wanted) {
  // Descriptor 9 is open in this shell alone: when it is gone, in whichever way, the watcher's read ends. The
  // watcher opens its end while it still has that descriptor, so that it cannot wait for a writer.
  const auto& nonce = wanted.nonce;
  return fmt::format(
      R"sh({{{clean}
LC_ALL=C; export LC_ALL; umask 077; trap '' HUP INT TERM PIPE; ulimit -c 0 2>/dev/null
d={folder}
virtrain_fail() {{ virtrain_clean "$d"; echo; echo {failed} {nonce} "$*"; echo {gone} {nonce}; exit 1; }}
virtrain_clean "$d"
mkdir -m 700 "$d" 2>/dev/null || {{ echo {failed} {nonce} "$d cannot be made there"; exit 1; }}
mkfifo "$d/alive" 2>/dev/null || virtrain_fail "a pipe cannot be made in $d"
exec 9<> "$d/alive"
( exec 3< "$d/alive" 9>&-; read -r none <&3; virtrain_clean "$d" ) >/dev/null 2>&1 &
echo; echo {wants} {nonce}
head -c {bytes} 9>&- | gzip -dc 2>/dev/null 9>&- | tar -x -f - -C "$d" 2>/dev/null 9>&-
[ -d "$d/bin" ] || virtrain_fail "the programs did not arrive"
( cd "$d" && echo "{digest}  manifest" | sha256sum -c - && sha256sum -c manifest ) >/dev/null 2>&1 9>&- ||
  virtrain_fail "the programs arrived with a wrong checksum, or did not fit in $d"
mkdir "$d/tmp"
cd "$d" || virtrain_fail "$d cannot be entered"
{payload}why=$(env {environment} virtrain-agent --help 2>&1 >/dev/null 9>&-) || virtrain_fail "the agent does not run there: $why"
echo {started} {nonce}
env {environment} virtrain-agent --stdio --silence {silence} --folder "$d" 9>&-
cd /
virtrain_clean "$d" && {{ echo; echo {gone} {nonce}; }}
exit 0
}}
)sh",
      fmt::arg("clean", clean_function), fmt::arg("folder", shell_word(wanted.folder)),
      fmt::arg("failed", has_failed), fmt::arg("nonce", nonce), fmt::arg("gone", is_gone),
      fmt::arg("wants", wants_archive), fmt::arg("bytes", wanted.archive_bytes),
      fmt::arg("digest", wanted.manifest_digest), fmt::arg("payload", payload_part(wanted)),
      fmt::arg("environment", "\"" + join(wanted.environment, "\" \"") + "\""),
      fmt::arg("started", has_started), fmt::arg("silence", wanted.silence_ms));
}

std::string clean_script(const std::string& nonce, const std::string& folder) {
  return fmt::format(
      "{{{0}\nif virtrain_clean {1}; then echo; echo {2} {4}; else echo; echo {3} {4}; fi; }}\n",
      clean_function, shell_word(folder), is_gone, has_failed, nonce);
}

}  // namespace virtrain::harness
