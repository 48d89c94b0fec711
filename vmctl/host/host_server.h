#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>

#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "common/files/unique_fd.h"
#include "common/frames/frame_link.h"
#include "common/system/log.h"
#include "vmctl/api/host.h"
#include "vmctl/api/protocol/messages.h"
#include "vmctl/host/host_calls.h"

namespace virtrain::vmctl {

/// A host for one coordinator, at the other end of a connection. Each call runs on a thread of its own, so
/// that one that blocks delays no other and no beat.
class HostServer {
 public:
  HostServer(Host& host, UniqueFd in, UniqueFd out, LinkTimes times = {});

  /// Answers until the coordinator has gone, was silent for too long, or broke the protocol; then undoes all
  /// that it had made and not removed itself. Returns why it ended.
  std::string run();
  /// SIGTERM ends it, unless the coordinator does; SIGINT and SIGHUP of a terminal are the coordinator's to
  /// hear. Before run().
  void heed_signals();
  /// From any thread: run() ends as if the coordinator had gone.
  void stop(const std::string& why);
  /// Passes a line of the log on to the coordinator. From any thread.
  void log(log::Level level, std::string_view message, const nlohmann::json& fields);

 private:
  void take(const nlohmann::json& message);
  void greet(const Hello& hello);
  void answer(const HostCall& call);
  /// Note what there is to be undone: what a call may have done if it fails, and what it has done.
  void note_before(const std::string& call);
  void note_after(const HostCall& call, const nlohmann::json& value);
  void undo();

  Host& host_;
  HostCalls calls_;
  boost::asio::io_context io_;
  boost::asio::thread_pool pool_;
  boost::asio::signal_set ends_{io_}, ignored_{io_};
  boost::asio::steady_timer coordinators_end_{io_};
  FrameLink link_;
  bool is_greeted_ = false;
  std::string ended_;
  std::mutex mutex_;
  std::set<NodeGroupId> groups_;  ///< made and not removed
  bool began_ = false, lends_ = false, planted_ = false;
};

}  // namespace virtrain::vmctl
