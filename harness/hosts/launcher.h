#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"
#include "harness/hosts/elevation.h"
#include "harness/scenario/host_list.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::harness {

/// The purpose of a host process.
struct HostRequest {
  std::filesystem::path root = "/";          ///< of a recorded host
  std::optional<vmctl::HostMode> mode = {};  ///< of the run; absent: of this host only what is there is asked
  bool with_vms = false;
  Elevation elevation = Elevation::none;
};

/// A started `virtrain-host`.
struct HostProcess {
  UniqueFd in, out;       ///< its answers, and where requests go
  pid_t pid = -1;         ///< of the program that was started, or of sudo; -1: systemd has it
  UniqueFd err = {};      ///< what a launcher says on standard error; not open: it says it on ours
  std::string name = {};  ///< of one of several hosts; empty: it is the only one
  std::optional<AllocatedNode> allocated = {};  ///< to which its inventory is limited
};

/// Starts the program for this machine. Signals of the terminal are not for it: it is in a session of its
/// own, or, for sudo knows a user by the terminal, in a process group of its own.
HostProcess start_host(const HostRequest& request);

/// Options of virtrain-host for that purpose.
std::vector<std::string> host_options(const HostRequest& request);

/// Starts virtrain-host on the host of that name by a launcher's words, in a session of its own as above.
/// Throws Error(not_found) where the launcher is not installed.
HostProcess start_launcher(const std::vector<std::string>& words, const std::string& name);

/// Throws Error(io).
UniqueFd connect_to_group_socket();

/// Standard error of a launcher: a refusal before it has started anything, and later perhaps why
/// the connection broke. Its end is kept; what it says while all is well is logged, with the host's name.
class LauncherWords {
 public:
  /// Without a descriptor there are no words.
  LauncherWords(boost::asio::io_context& io, UniqueFd err, std::string host);

  /// On the io_context's thread; so are the others, or once it has stopped.
  void start();
  /// virtrain-host has answered: what was said before was no refusal.
  void log_from_now_on();
  /// The end of what was said in one line, also of what nobody has read yet. Waits for more words, or for
  /// the launcher's end, 0.2 s at most.
  std::string said();
  /// No words are read any more; the io_context may run out of work.
  void stop();

 private:
  void read();
  void take(std::string_view bytes);

  boost::asio::posix::stream_descriptor err_;
  const std::string host_;
  std::string buffer_;
  std::string kept_;     ///< the last bytes
  std::string unended_;  ///< a line that is logged once it ends
  bool is_logged_ = false;
};

}  // namespace virtrain::harness
