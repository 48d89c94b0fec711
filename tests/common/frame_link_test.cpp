#include "common/frames/frame_link.h"

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "common/files/unique_fd.h"
#include "tests/support/catch.h"

namespace virtrain {
namespace {

using namespace std::chrono_literals;

/// One side of a connection, on a thread of its own.
class Side {
 public:
  explicit Side(UniqueFd fd, LinkTimes times = {})
      : in_(duplicate(fd.get())),
        link_(io_, std::move(in_), std::move(fd),
              {.message =
                   [this](const nlohmann::json& message) {
                     ++messages;
                     if (on_message) { on_message(message); }
                   },
               .end =
                   [this](const std::string& why) {
                     ended = true;
                     why_ = why;
                   }},
              times) {}
  ~Side() { end(); }

  void start() {
    link_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  void end() {
    boost::asio::post(io_, [this] { link_.end("done"); });
    if (thread_.joinable()) { thread_.join(); }
  }
  FrameLink& link() { return link_; }
  std::string why() {
    thread_.join();
    return why_;
  }

  std::atomic<int> messages = 0;
  std::atomic<bool> ended = false;
  std::function<void(const nlohmann::json&)> on_message;

 private:
  boost::asio::io_context io_;
  UniqueFd in_;
  FrameLink link_;
  std::thread thread_;
  std::string why_;
};

struct Pair {
  explicit Pair(LinkTimes times = {}) {
    auto [a, b] = make_socketpair();
    left = std::make_unique<Side>(std::move(a), times);
    right = std::make_unique<Side>(std::move(b), times);
  }
  void start() const {
    left->start();
    right->start();
  }
  /// The local ends of a stream that both sides have opened.
  std::pair<UniqueFd, UniqueFd> stream(std::uint32_t id) const {
    auto [left_outer, left_inner] = make_socketpair();
    auto [right_outer, right_inner] = make_socketpair();
    right->link().open(id, std::move(right_inner));
    std::this_thread::sleep_for(20ms);  // what comes for a stream that is not open is nobody's
    left->link().open(id, std::move(left_inner));
    return {std::move(left_outer), std::move(right_outer)};
  }
  std::unique_ptr<Side> left, right;
};

void await(const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!what() && std::chrono::steady_clock::now() < end) { std::this_thread::sleep_for(1ms); }
  CHECK(what());
}

std::string read_all(int fd) {
  std::string bytes;
  char part[65536];
  for (ssize_t size = 0; (size = ::read(fd, part, sizeof part)) > 0;) {
    bytes.append(part, static_cast<std::size_t>(size));
  }
  return bytes;
}

}  // namespace

TEST_CASE("a stream arrives whole and in order, and ends at its end") {
  Pair pair;
  pair.start();
  auto ends = pair.stream(7);
  std::string sent;
  for (std::uint32_t i = 0; i < 9'000'001; ++i) { sent += static_cast<char>(i * 2'654'435'761U >> 24); }
  std::string back;
  std::thread reader([&back, fd = ends.second.get()] { back = read_all(fd); });
  for (std::size_t at = 0; at < sent.size();) {
    const auto size = ::write(ends.first.get(), sent.data() + at, sent.size() - at);
    REQUIRE(size > 0);
    at += static_cast<std::size_t>(size);
  }
  ::shutdown(ends.first.get(), SHUT_WR);
  reader.join();
  CHECK(back == sent);
}

TEST_CASE("a stream that nobody reads stops at its window and delays no other and no message") {
  Pair pair;
  pair.start();
  auto [stuck, unread] = pair.stream(1);
  auto [left, right] = pair.stream(2);
  ::fcntl(stuck.get(), F_SETFL, O_NONBLOCK);
  const std::string much(64U << 10, 'x');
  std::size_t taken = 0;
  for (int tries = 0; tries < 200; ++tries) {
    const auto size = ::write(stuck.get(), much.data(), much.size());
    if (size > 0) {
      taken += static_cast<std::size_t>(size);
    } else {
      std::this_thread::sleep_for(1ms);
    }
  }
  CHECK(taken >= stream_window);
  CHECK(taken < 4 * stream_window);  // the window, and what the sockets on both ends hold
  REQUIRE(::write(left.get(), "ping", 4) == 4);
  char answer[4];
  CHECK(::read(right.get(), answer, sizeof answer) == 4);
  pair.left->link().send({{"type", "hello"}});
  await([&] { return pair.right->messages == 1; });
}

TEST_CASE("a side that closes a stream closes it on the other, and the connection goes on") {
  Pair pair;
  pair.start();
  auto [left, right] = pair.stream(3);
  left.reset();
  char byte = 0;
  CHECK(::read(right.get(), &byte, 1) == 0);
  pair.right->link().send({{"type", "hello"}});
  await([&] { return pair.left->messages == 1; });
}

TEST_CASE("a side that has gone without a word is an end in words, and no end of this process") {
  std::signal(SIGPIPE, SIG_DFL);
  auto [ours, theirs] = make_socketpair();
  Side side(std::move(ours));
  theirs.reset();
  side.link().send({{"type", "hello"}});  // written before the end is read
  side.start();
  CHECK(!side.why().empty());
}

TEST_CASE("sides that beat stay connected, and one that falls silent is taken for gone") {
  const LinkTimes times{.beat = 20ms, .silent = 200ms};
  Pair pair(times);
  pair.left->start();
  SECTION("both beat") {
    pair.right->start();
    std::this_thread::sleep_for(600ms);
    CHECK_FALSE(pair.left->ended);
    CHECK_FALSE(pair.right->ended);
  }
  SECTION("one is silent") {
    CHECK_THAT(pair.left->why(), test::Contains("it was silent for"));
  }
}

TEST_CASE("a side that sends more than was asked for, or reads more than was sent, breaks the protocol") {
  auto [ours, theirs] = make_socketpair();
  Side side(std::move(theirs));
  side.start();
  auto [outer, inner] = make_socketpair();
  side.link().open(5, std::move(inner));
  std::this_thread::sleep_for(20ms);
  Frame frame;
  SECTION("more bytes") {
    frame.stream = 5;
    frame.body.assign(max_body_bytes, 'x');
    const auto bytes = encode(frame, host_frame_limits) + encode(frame, host_frame_limits);
    std::thread writer([&, fd = ours.get()] { (void)!::write(fd, bytes.data(), bytes.size()); });
    CHECK_THAT(side.why(), test::Contains("more bytes than were asked for"));
    ours.reset();
    writer.join();
  }
  SECTION("more credit") {
    frame.message = {{"type", "credit"}, {"stream", 5}, {"bytes", 1}};
    const auto bytes = encode(frame, host_frame_limits);
    REQUIRE(::write(ours.get(), bytes.data(), bytes.size()) > 0);
    CHECK_THAT(side.why(), test::Contains("read further than it was written"));
  }
}

}  // namespace virtrain
