// What a stream over frames carries, and how a stuck one delays another: scripts/bench harness runs it.

#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/frames/frame_link.h"
#include "common/system/subprocess.h"

namespace {

using namespace virtrain;
using Clock = std::chrono::steady_clock;

constexpr std::size_t megabytes = 1000, bytes_of_mb = 1'000'000;
constexpr int pings = 2000;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

class Side {
 public:
  explicit Side(UniqueFd fd)
      : in_(duplicate(fd.get())),
        link_(io_, std::move(in_), std::move(fd), {.message = {}, .end = [](const std::string& why) {
                                                     fmt::print(stderr, "the link ended: {}\n", why);
                                                   }}) {
    link_.start();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Side() {
    boost::asio::post(io_, [this] { link_.end("done"); });
    thread_.join();
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  UniqueFd open(std::uint32_t stream) {
    auto [outer, inner] = make_socketpair();
    link_.open(stream, std::move(inner));
    return std::move(outer);
  }

 private:
  boost::asio::io_context io_;
  UniqueFd in_;
  FrameLink link_;
  std::thread thread_;
};

double throughput(int from, int to) {
  const auto began = Clock::now();
  std::thread writer([from] {
    const std::string much(1U << 18, 'x');
    for (std::size_t left = megabytes * bytes_of_mb; left > 0;) {
      const auto size = ::write(from, much.data(), std::min(left, much.size()));
      if (size <= 0) { return; }
      left -= static_cast<std::size_t>(size);
    }
  });
  std::string into(1U << 18, 0);
  for (std::size_t left = megabytes * bytes_of_mb; left > 0;) {
    const auto size = ::read(to, into.data(), std::min(left, into.size()));
    if (size <= 0) { break; }
    left -= static_cast<std::size_t>(size);
  }
  writer.join();
  return static_cast<double>(megabytes) / seconds_since(began);
}

/// Round trips of 64 bytes in ms, sorted.
std::vector<double> round_trips(int here, int there) {
  std::vector<double> taken;
  char bytes[64] = {};
  for (int i = 0; i < pings; ++i) {
    const auto began = Clock::now();
    if (::write(here, bytes, sizeof bytes) < 0 || ::read(there, bytes, sizeof bytes) < 0 ||
        ::write(there, bytes, sizeof bytes) < 0 || ::read(here, bytes, sizeof bytes) < 0) {
      break;
    }
    taken.push_back(1000 * seconds_since(began));
  }
  std::sort(taken.begin(), taken.end());
  return taken;
}

void fill(int stuck) {
  ::fcntl(stuck, F_SETFL, O_NONBLOCK);
  const std::string much(1U << 16, 'x');
  for (int i = 0; i < 200; ++i) {
    if (::write(stuck, much.data(), much.size()) < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace

int main() {
  ignore_broken_pipes();
  auto [a, b] = make_socketpair();
  Side left(std::move(a)), right(std::move(b));
  std::vector<std::pair<UniqueFd, UniqueFd>> streams;
  for (std::uint32_t id = 1; id <= 2; ++id) {
    auto there = right.open(id);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    streams.emplace_back(left.open(id), std::move(there));
  }
  const auto mb = throughput(streams[0].first.get(), streams[0].second.get());
  const auto before = round_trips(streams[1].first.get(), streams[1].second.get());
  fill(streams[0].first.get());
  const auto after = round_trips(streams[1].first.get(), streams[1].second.get());
  const auto p99 = [](const auto& taken) { return taken[taken.size() * 99 / 100]; };
  fmt::print("{:.0f} {:.3f} {:.3f} {:.3f} {:.3f}\n", mb, before[before.size() / 2], p99(before),
             after[after.size() / 2], p99(after));
}
