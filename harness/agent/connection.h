#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <deque>
#include <string>

#include "common/files/unique_fd.h"
#include "common/frames/frame.h"

namespace virtrain::harness {

namespace asio = boost::asio;

/// Limit of the frames that were posted and not yet written.
inline constexpr std::size_t max_posted_bytes = 4U << 20;

/// Frames over one byte stream (socket, virtio-serial port), or over one that comes and one that goes. All
/// calls from the io_context's one thread. Senders wait while the queue is full, so a flooding process is
/// slowed down and never fills memory; who cannot wait posts, up to a limit.
class Connection {
 public:
  /// `out`: where frames go; not open: to `stream`, too.
  Connection(asio::io_context& io, UniqueFd stream, UniqueFd out = {});

  /// Queues one frame for writing. Throws once the connection is closed.
  asio::awaitable<void> send(Frame frame);
  /// As send(), without waiting; posted frames keep their order. False where `max_posted_bytes` wait already:
  /// the other side reads too little.
  bool post(const Frame& frame);
  /// The next frame; throws boost::system::system_error(eof) at the end and Error(protocol) on anything
  /// malformed.
  asio::awaitable<Frame> receive();
  /// Writes queued frames until the connection closes; run it once beside receive().
  asio::awaitable<void> write_queued();
  /// Ends everything that waits on this connection.
  void close();
  bool is_open() const { return stream_.is_open(); }

 private:
  asio::posix::stream_descriptor& out() { return out_.is_open() ? out_ : stream_; }

  asio::posix::stream_descriptor stream_, out_;
  asio::experimental::channel<void(boost::system::error_code, std::string)> queue_;
  std::deque<std::string> posted_;
  std::size_t posted_bytes_ = 0;
  FrameDecoder decoder_;
};

}  // namespace virtrain::harness
