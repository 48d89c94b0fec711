#include "common/frames/frame_link.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/units.h"

namespace virtrain {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t read_bytes = 256U << 10;
/// Credit for a stream goes back in steps, not with each read.
constexpr std::size_t credit_step = stream_window / 4;

std::string frame_of(nlohmann::json message) {
  return encode({.message = std::move(message)}, host_frame_limits);
}

std::size_t unread_bytes(asio::posix::stream_descriptor& in) {
  asio::posix::descriptor_base::bytes_readable unread;
  error_code failed;
  in.io_control(unread, failed);
  return failed ? 0 : unread.get();
}

}  // namespace

struct FrameLink::Stream {
  asio::posix::stream_descriptor local;
  std::size_t may_send = stream_window;     ///< until the other side has read more
  std::size_t may_receive = stream_window;  ///< likewise, of the other side
  std::size_t unread_credit = 0;            ///< written to `local`, and not told yet
  std::string incoming, writing;
  bool reads = false;
  bool peer_closed = false;
  std::array<char, (64U << 10)> buffer{};

  Stream(asio::io_context& io, UniqueFd fd) : local(io, fd.release()) {}
};

FrameLink::FrameLink(asio::io_context& io, UniqueFd in, UniqueFd out, Handlers handlers, LinkTimes times)
    : io_(io),
      in_(io, in.release()),
      out_(io, out.release()),
      timer_(io),
      handlers_(std::move(handlers)),
      times_(times),
      heard_at_(std::chrono::steady_clock::now()) {
  ignore_broken_pipes();  // the other side may be gone before its end is read here
  received_.resize(read_bytes);
}

FrameLink::~FrameLink() {
  *alive_ = false;
}

void FrameLink::start() {
  read();
  beat();
}

void FrameLink::send(nlohmann::json message) {
  asio::post(io_, [this, alive = alive_, bytes = frame_of(std::move(message))] {
    if (*alive) { queue(bytes); }
  });
}

void FrameLink::open(std::uint32_t id, UniqueFd local, nlohmann::json also) {
  auto bytes = also.is_null() ? std::string() : frame_of(std::move(also));
  const auto fd = std::make_shared<UniqueFd>(std::move(local));
  // At once where the link itself calls: bytes of the stream may follow in the same read.
  asio::dispatch(io_, [this, alive = alive_, id, fd, bytes = std::move(bytes)] {
    if (!*alive || ended_) { return; }
    if (!bytes.empty()) { queue(bytes); }
    const auto stream = std::make_shared<Stream>(io_, std::move(*fd));
    streams_[id] = stream;
    read_local(id, stream);
  });
}

void FrameLink::end(const std::string& why) {
  if (std::exchange(ended_, true)) { return; }
  error_code ignored;
  timer_.cancel();
  in_.close(ignored);
  out_.close(ignored);
  for (auto& [id, stream] : std::exchange(streams_, {})) { stream->local.close(ignored); }
  if (handlers_.end) { handlers_.end(why); }
}

// --- the connection

void FrameLink::read() {
  in_.async_read_some(asio::buffer(received_),
                      [this, alive = alive_](const error_code& failed, std::size_t size) {
                        if (!*alive || ended_) { return; }
                        if (failed) {
                          return end(failed == asio::error::eof ? "it ended" : failed.message());
                        }
                        heard_at_ = std::chrono::steady_clock::now();
                        heard_ = true;
                        try {
                          decoder_.feed(std::string_view(received_).substr(0, size));
                          while (auto frame = decoder_.next()) {
                            take(std::move(*frame));
                            if (!*alive || ended_) { return; }
                          }
                        } catch (const Error& error) { return end(error.what()); }
                        read();
                      });
}

void FrameLink::take(Frame frame) {
  if (frame.stream) { return take_bytes(*frame.stream, frame.body); }
  const auto type = string_field(frame.message, "type");
  if (type == "alive") { return; }
  if (type == "credit" || type == "close") { return take_link_message(type, frame.message); }
  handlers_.message(std::move(frame.message));
}

void FrameLink::take_link_message(const std::string& type, const nlohmann::json& message) {
  const auto id = static_cast<std::uint32_t>(integer_field(message, "stream"));
  const auto found = streams_.find(id);
  if (found == streams_.end()) { return; }  // both sides may close a stream at one time
  const auto stream = found->second;
  if (type == "close") {
    stream->peer_closed = true;
    return write_local(id, stream);
  }
  const auto more = integer_field(message, "bytes");
  if (more <= 0 || stream->may_send + static_cast<std::size_t>(more) > stream_window) {
    throw Error("read frame", ErrorCode::protocol, "a stream was read further than it was written");
  }
  stream->may_send += static_cast<std::size_t>(more);
  read_local(id, stream);
}

void FrameLink::queue(const std::string& bytes) {
  if (ended_) { return; }
  queued_ += bytes;
  write();
}

void FrameLink::write() {
  if (!writing_.empty() || queued_.empty()) { return; }
  writing_ = std::exchange(queued_, {});
  asio::async_write(out_, asio::buffer(writing_),
                    [this, alive = alive_](const error_code& failed, std::size_t) {
                      if (!*alive || ended_) { return; }
                      writing_.clear();
                      if (failed) { return end(failed.message()); }
                      write();
                    });
}

void FrameLink::beat() {
  timer_.expires_after(times_.beat);
  timer_.async_wait([this, alive = alive_](const error_code& failed) {
    if (failed || !*alive || ended_) { return; }
    // This process may have slept, stopped or starved: then the other side's words lie unread in the socket.
    const auto silent = std::chrono::steady_clock::now() - heard_at_;
    const auto longest = heard_ ? times_.silent : times_.first.value_or(times_.silent);
    if (silent > longest && unread_bytes(in_) == 0) {
      return end(fmt::format("it was silent for {}", format_duration(silent / std::chrono::nanoseconds(1))));
    }
    queue(frame_of({{"type", "alive"}}));
    beat();
  });
}

// --- streams

void FrameLink::read_local(std::uint32_t id, const std::shared_ptr<Stream>& stream) {
  if (stream->reads || stream->may_send == 0 || !stream->local.is_open()) { return; }
  stream->reads = true;
  const auto most = std::min(stream->may_send, stream->buffer.size());
  stream->local.async_read_some(
      asio::buffer(stream->buffer.data(), most),
      [this, alive = alive_, id, stream](const error_code& failed, std::size_t size) {
        if (!*alive || ended_) { return; }
        stream->reads = false;
        if (failed) { return close_local(id); }
        stream->may_send -= size;
        Frame frame;
        frame.stream = id;
        frame.body.assign(stream->buffer.data(), size);
        queue(encode(frame, host_frame_limits));
        read_local(id, stream);
      });
}

void FrameLink::take_bytes(std::uint32_t id, const std::string& bytes) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) { return; }  // of a stream that this side has closed
  const auto stream = found->second;
  if (bytes.size() > stream->may_receive) {
    throw Error("read frame", ErrorCode::protocol, "a stream has more bytes than were asked for");
  }
  stream->may_receive -= bytes.size();
  stream->incoming += bytes;
  write_local(id, stream);
}

void FrameLink::write_local(std::uint32_t id, const std::shared_ptr<Stream>& stream) {
  if (!stream->writing.empty() || !stream->local.is_open()) { return; }
  if (stream->incoming.empty()) {
    if (stream->peer_closed) { close_local(id); }
    return;
  }
  stream->writing = std::exchange(stream->incoming, {});
  asio::async_write(stream->local, asio::buffer(stream->writing),
                    [this, alive = alive_, id, stream](const error_code& failed, std::size_t) {
                      if (!*alive || ended_) { return; }
                      const auto written = std::exchange(stream->writing, {}).size();
                      if (failed) { return close_local(id); }
                      stream->may_receive += written;
                      stream->unread_credit += written;
                      if (stream->unread_credit >= credit_step) {
                        const auto told = std::exchange(stream->unread_credit, 0);
                        queue(frame_of({{"type", "credit"}, {"stream", id}, {"bytes", told}}));
                      }
                      write_local(id, stream);
                    });
}

void FrameLink::close_local(std::uint32_t id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) { return; }
  const auto stream = found->second;
  streams_.erase(found);
  error_code ignored;
  stream->local.close(ignored);
  if (!stream->peer_closed) { queue(frame_of({{"type", "close"}, {"stream", id}})); }
}

}  // namespace virtrain
