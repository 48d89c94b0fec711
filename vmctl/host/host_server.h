#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "common/files/unique_fd.h"
#include "common/frames/frame_link.h"
#include "common/system/log.h"
#include "vmctl/api/host.h"
#include "vmctl/api/protocol/messages.h"

namespace virtrain::vmctl {

/// A call's value, and the stream that comes with it.
struct CallResult {
  nlohmann::json value;
  UniqueFd stream;
};

/// Makes the calls of one coordinator, from any thread.
class HostCalls {
 public:
  explicit HostCalls(Host& host) : host_(host) {}

  /// Makes the call of that name, once those of its order have ended. Nothing is done where there is no such
  /// name, or the arguments do not fit: Error(protocol).
  CallResult make(const std::string& call, const nlohmann::json& arguments);

 private:
  Host& host_;
  std::array<std::mutex, 3> turns_;  ///< by CallOrder; nobody waits for that of `none`
};

/// A host for one coordinator, at the other end of a connection. Each call runs on a thread of its own, so
/// that one that blocks delays no other and no beat.
class HostServer {
 public:
  HostServer(Host& host, UniqueFd in, UniqueFd out, LinkTimes times = {});

  /// Answers until the coordinator has gone, was silent for too long, or broke the protocol, and the calls
  /// under way have ended. Returns why it ended.
  std::string serve();
  /// Undoes all that the coordinator had made and not removed itself.
  void undo();
  /// SIGTERM ends it, unless the coordinator does; SIGINT and SIGHUP of a terminal are the coordinator's to
  /// hear. Before serve().
  void heed_signals();
  /// From any thread: serve() ends as if the coordinator had gone.
  void stop(const std::string& why);
  /// Passes a line of the log on to the coordinator. From any thread.
  void log(log::Level level, std::string_view message, const nlohmann::json& fields);

 private:
  void take(const nlohmann::json& message);
  void greet(const Hello& hello);
  void answer(const HostCall& call);
  /// Looks, tells what was seen, and again one second later.
  void look();
  /// Notes what there is to be undone once a call has been made.
  void note(const HostCall& call, const nlohmann::json& value);

  Host& host_;
  HostCalls calls_;
  boost::asio::io_context io_;
  boost::asio::thread_pool pool_;
  boost::asio::signal_set ends_{io_}, ignored_{io_};
  boost::asio::steady_timer coordinators_end_{io_}, next_look_{io_};
  FrameLink link_;
  bool is_greeted_ = false;
  std::string ended_;
  std::mutex mutex_;
  std::set<NodeGroupId> groups_;  ///< made and not removed
  bool began_ = false;
};

}  // namespace virtrain::vmctl
