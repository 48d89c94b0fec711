#include "harness/agent/connection.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <utility>

#include "common/system/subprocess.h"

namespace virtrain::harness {
namespace {
constexpr std::size_t queued_frames = 32;
/// Memory that a posted frame costs beside its bytes, roughly.
constexpr std::size_t posted_frame_bytes = 200;
}  // namespace

Connection::Connection(asio::io_context& io, UniqueFd stream, UniqueFd out)
    : stream_(io, stream.release()), out_(io), queue_(io, queued_frames) {
  if (out) { out_.assign(out.release()); }
  ignore_broken_pipes();
}

asio::awaitable<void> Connection::send(Frame frame) {
  co_await queue_.async_send(boost::system::error_code{}, encode(frame), asio::use_awaitable);
}

bool Connection::post(const Frame& frame) {
  auto bytes = encode(frame);
  const auto more = bytes.size() + posted_frame_bytes;
  if (posted_bytes_ + more > max_posted_bytes) { return false; }
  posted_bytes_ += more;
  posted_.push_back(std::move(bytes));
  // Wakes a writer that waits; a full queue has one that does not.
  queue_.try_send(boost::system::error_code{}, std::string());
  return true;
}

asio::awaitable<Frame> Connection::receive() {
  while (true) {
    if (auto frame = decoder_.next()) { co_return std::move(*frame); }
    std::array<char, 65536> chunk;
    const std::size_t got = co_await stream_.async_read_some(asio::buffer(chunk), asio::use_awaitable);
    decoder_.feed({chunk.data(), got});
  }
}

asio::awaitable<void> Connection::write_queued() {
  try {
    while (true) {
      std::string bytes = co_await queue_.async_receive(asio::use_awaitable);
      co_await asio::async_write(this->out(), asio::buffer(bytes), asio::use_awaitable);
      for (; !posted_.empty(); posted_.pop_front()) {
        posted_bytes_ -= posted_.front().size() + posted_frame_bytes;
        co_await asio::async_write(this->out(), asio::buffer(posted_.front()), asio::use_awaitable);
      }
    }
  } catch (...) {
    close();  // nobody takes frames any more: whoever waits to send or to receive must hear of it
    throw;
  }
}

void Connection::close() {
  queue_.cancel();  // close() alone leaves those waiting who found the queue full
  queue_.close();
  boost::system::error_code ignored;
  stream_.close(ignored);
  if (out_.is_open()) { out_.close(ignored); }
}

}  // namespace virtrain::harness
