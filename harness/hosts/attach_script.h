#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The far side of a machine that exists already is a plain `sh`, which reads what to do from its input: one
// whole command at a time, each of which says when it wants more. All pure.
namespace virtrain::harness {

/// The words that start a shell on the machine. ssh is told to ask for no password and to notice a cut link.
std::vector<std::string> attach_words(std::vector<std::string> launcher);

/// Words of a launcher that asks somebody for a password or a key; what it said on standard error, or before
/// the shell's first answer.
bool asks_for_password(std::string_view said);

/// A folder of the machine where programs may lie.
struct FarFolder {
  std::string path;
  std::optional<std::uint64_t> free_bytes = {};  ///< where the machine can tell
  bool may_execute = true;
};

/// A machine as its shell describes it; what it could not tell is empty.
struct FarMachine {
  std::string architecture, kernel, system, libc;
  std::string identity;  ///< machine-id and boot id, which together are of one machine only
  bool has_terminal = false;
  bool has_proc = false;
  std::vector<std::string> missing;  ///< programs that virtrain needs there
  std::vector<std::string> absent;   ///< programs of FarNeeds that it lacks
  std::int64_t gpus = 0;             ///< of NVIDIA, by their device files
  bool has_cuda_driver = false;      ///< its loader finds libcuda.so.1
  std::vector<FarFolder> folders;    ///< that this user may write to, the best first
};

/// Parts of a machine that its ranks use.
struct FarNeeds {
  std::vector<std::string> programs = {};  ///< the first words of commands
  std::int64_t gpus = 0;                   ///< that ranks of backend cuda train on
  std::vector<std::string> payloads = {};  ///< paths of the images that commands run in
};

/// Lines that a shell's answer begins and ends with, and that nothing else prints.
std::string begin_line(const std::string& nonce);
std::string end_line(const std::string& nonce);

/// Has the machine described, line by line between begin_line() and end_line().
std::string probe_script(const std::string& nonce, const FarNeeds& needs = {});
FarMachine parse_probe(const std::vector<std::string>& lines);

/// Why the programs cannot run there; empty: they can. `architecture` and the bytes are theirs.
std::string why_unfit(const FarMachine& machine, std::string_view architecture, std::uint64_t needed_bytes);
/// Says which of them it lacks; empty: none.
std::string why_lacking(const FarMachine& machine, const FarNeeds& needs);
/// Paths of the folders with that much room.
std::vector<std::string> fit_folders(const FarMachine& machine, std::uint64_t needed_bytes);

/// Has the image of a job's payload described: whether it lies there, by its bytes.
std::string payload_script(const std::string& nonce, const std::string& path);
/// Why commands cannot run in it there; empty: they can. `sha256` is of the image here.
std::string why_no_payload(const std::vector<std::string>& lines, const std::string& path,
                           const std::string& sha256);

/// The words of the lines that a shell says while it starts the agent, each followed by the nonce, and maybe
/// by more.
inline constexpr const char* wants_archive = "virtrain-wants-archive";
inline constexpr const char* has_started = "virtrain-has-started";
inline constexpr const char* has_failed = "virtrain-has-failed";
inline constexpr const char* is_gone = "virtrain-is-gone";

struct StartScript {
  std::string nonce, folder;
  std::uint64_t archive_bytes = 0;
  std::string manifest_digest;
  std::vector<std::string> environment;  ///< assignments
  std::int64_t silence_ms = 0;
  std::string payload = {}, payload_sha256 = {};  ///< an image that lies there; empty: none
};
/// Below the folder: root file system of the payload.
inline constexpr const char* far_payload_folder = "/payload";
/// Takes the archive from its input into the folder, which must not exist, checks it, unpacks the payload
/// next to it, and becomes the agent's parent. Says `is_gone` when all of it has been removed, also after
/// SIGKILL of the agent; a second process removes it after SIGKILL of the first.
std::string start_script(const StartScript& wanted);

/// Ends what is left of an agent in the folder, and removes that. Says `is_gone`, or `has_failed`.
std::string clean_script(const std::string& nonce, const std::string& folder);

}  // namespace virtrain::harness
