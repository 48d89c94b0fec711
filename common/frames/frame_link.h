#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/files/unique_fd.h"
#include "common/frames/frame.h"

namespace virtrain {

/// Bytes of a stream that may be under way to a side that has not read them.
inline constexpr std::size_t stream_window = 1U << 20;

/// Times after which a side that says nothing is taken for gone.
struct LinkTimes {
  std::chrono::milliseconds beat{3'000};     ///< a side that has nothing to say says so this often
  std::chrono::milliseconds silent{12'000};  ///< then the link ends
  /// The same of a side that has not said anything yet, for it may still have to be started; absent: no
  /// longer than later.
  std::optional<std::chrono::milliseconds> first = {};
};

/// Messages and streams over one connection to another process, the same on both sides. A stream carries the
/// bytes of a local descriptor; what its reader does not take is not sent, so that it delays no other. All
/// of it happens on the io_context's one thread but where said otherwise.
class FrameLink {
 public:
  struct Handlers {
    std::function<void(nlohmann::json message)> message;
    /// Once, with the reason in words; nothing is received any more.
    std::function<void(const std::string& why)> end;
  };

  FrameLink(boost::asio::io_context& io, UniqueFd in, UniqueFd out, Handlers handlers, LinkTimes times = {});
  ~FrameLink();
  FrameLink(const FrameLink&) = delete;
  FrameLink& operator=(const FrameLink&) = delete;

  void start();
  /// From any thread. The message has a "type" that is none of the link's own: "alive", "credit", "close".
  void send(nlohmann::json message);
  /// From any thread: joins the stream and the descriptor. `also` is sent before any of its bytes.
  void open(std::uint32_t stream, UniqueFd local, nlohmann::json also = nullptr);
  /// Ends it, and all its streams.
  void end(const std::string& why);

 private:
  struct Stream;

  void read();
  void take(Frame frame);
  void take_link_message(const std::string& type, const nlohmann::json& message);
  void take_bytes(std::uint32_t id, const std::string& bytes);
  void queue(const std::string& bytes);
  void write();
  void beat();
  void read_local(std::uint32_t id, const std::shared_ptr<Stream>& stream);
  void write_local(std::uint32_t id, const std::shared_ptr<Stream>& stream);
  void close_local(std::uint32_t id);

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor in_, out_;
  boost::asio::steady_timer timer_;
  const Handlers handlers_;
  const LinkTimes times_;
  std::chrono::steady_clock::time_point heard_at_;
  bool heard_ = false;
  FrameDecoder decoder_{host_frame_limits};
  std::string received_;
  std::string queued_, writing_;
  bool ended_ = false;
  std::map<std::uint32_t, std::shared_ptr<Stream>> streams_;
  /// Alive as long as the link is: what is posted from other threads looks first.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace virtrain
