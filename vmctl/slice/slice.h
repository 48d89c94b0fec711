#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"
#include "vmctl/api/node.h"
#include "vmctl/process/child.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {

/// Environment of everything in a slice: how clean recognises processes.
inline constexpr const char* slice_variable = "VIRTRAIN_SLICE";
inline constexpr const char* experiment_variable = "VIRTRAIN_EXPERIMENT";

/// The slice's side of it is eth0: of a veth whose other end is in a bridge, or a device of the host's.
struct SliceNetwork {
  std::string bridge;                    ///< existing bridge, see create_bridge()
  std::string veth;                      ///< host side, "vt...", at most 15 characters
  std::string address;                   ///< "10.77.0.21/24"
  std::optional<std::int64_t> mtu = {};  ///< bytes, of both ends
  std::string host_mac = {};             ///< of the host's end; empty: the kernel chooses
  /// In place of bridge and veth, a network device of the host's, which goes with the slice: whoever has made
  /// it makes it again.
  std::string device = {};
};

struct SliceHost {
  std::string name;
  std::string address;
};

/// A bare-metal node: the agent confined to the same cores and memory as a VM of the same size.
struct SliceSpec {
  std::string name;  ///< "vt-<id>"; also names the network namespace and the cgroup
  std::string experiment;
  std::string hostname;
  std::vector<int> cores;
  std::uint64_t memory_bytes = 0;
  bool isolated = true;  ///< false (bare_metal_shared): no namespaces, only cores and memory
  SliceNetwork network;  ///< isolated only
  NodeLimits limits = {};
  std::vector<SliceHost> hosts;
  /// The agent's command line. "--fd 3" is appended: the descriptor of its channel.
  std::vector<std::string> argv;
  /// Its TMPDIR: a folder of mode 0700 that is there, or, isolated, that is made in the slice's own /tmp.
  std::filesystem::path temporary_folder;
  std::vector<std::string> environment;  ///< NAME=value, beside what slice_environment_with() inherits
  /// Folders of what the agent may start, beside its own: they stay visible where they lie under /tmp.
  std::vector<std::filesystem::path> program_folders;
  std::filesystem::path payload;  ///< squashfs that is mounted below its TMPDIR; empty: none
  std::filesystem::path log;      ///< receives its stdout and stderr
  /// Whom the agent and all that it starts run as; nothing: whom this process runs as.
  std::optional<Identity> user = {};
};

/// A running slice. Destroying it kills everything in it. When this process dies without that, the slice's
/// helper notices (its life line closes) and kills everything too; only veth, namespace name and cgroup then
/// wait for clean.
class Slice {
 public:
  virtual ~Slice() = default;
  /// Our end of the agent's channel; taken once.
  virtual UniqueFd take_channel() = 0;
  /// Host pid of the slice's agent, the helper's only child for as long as it lives; nothing once it has
  /// gone.
  virtual std::optional<pid_t> agent_pid() const = 0;
  /// Host pid of the slice's helper, the ancestor of everything in it.
  virtual pid_t pid() const = 0;
  /// The limits that really hold: "cores", "memory" ("cgroup v1", "cgroup v2", "rlimit"), "namespaces", ….
  virtual std::map<std::string, std::string> applied() const = 0;
  /// Kills, waits, removes veth, namespace and cgroup; throws Error where any of them stays. Idempotent; also
  /// done by the destructor.
  virtual void destroy() = 0;
};

/// Throws Error(host_unable) for an isolated slice without root.
std::unique_ptr<Slice> start_slice(const SliceSpec& spec);
/// Removes what a slice that did not start, or whose helper was killed, may have left: processes, veth,
/// namespace, cgroup. Tries all of it; throws Error with what stays.
void remove_rest_of_slice(const SliceSpec& spec);

}  // namespace virtrain::vmctl
