#include "harness/hosts/launcher_words.h"

#include <boost/asio/buffer.hpp>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_kept_bytes = 2048;
constexpr std::size_t longest_line = 1000;
constexpr std::size_t read_bytes = 4096;
constexpr std::chrono::milliseconds for_more{200};

}  // namespace

LauncherWords::LauncherWords(boost::asio::io_context& io, UniqueFd err, std::string host)
    : err_(io), host_(std::move(host)), buffer_(read_bytes, '\0') {
  if (err) { err_.assign(err.release()); }
}

void LauncherWords::start() {
  if (err_.is_open()) { read(); }
}

void LauncherWords::read() {
  err_.async_read_some(boost::asio::buffer(buffer_),
                       [this](const boost::system::error_code& failed, std::size_t size) {
                         if (failed) { return; }
                         take(std::string_view(buffer_).substr(0, size));
                         read();
                       });
}

void LauncherWords::take(std::string_view bytes) {
  kept_ += bytes;
  if (kept_.size() > most_kept_bytes) { kept_.erase(0, kept_.size() - most_kept_bytes); }
  if (!is_logged_) { return; }
  unended_ += bytes;
  for (auto end = unended_.find('\n'); end != std::string::npos; end = unended_.find('\n')) {
    if (const auto line = trim(std::string_view(unended_).substr(0, end)); !line.empty()) {
      log::info(excerpt(line, longest_line), {{"host", host_}});
    }
    unended_.erase(0, end + 1);
  }
  if (unended_.size() > most_kept_bytes) { unended_.clear(); }
}

void LauncherWords::log_from_now_on() {
  if (const auto before = trim(kept_); !before.empty()) {
    log::debug(excerpt(before, longest_line), {{"host", host_}});
  }
  kept_.clear();
  is_logged_ = true;
}

std::string LauncherWords::said() {
  if (err_.is_open()) {
    char bytes[read_bytes];
    while (becomes_readable(err_.native_handle(), for_more)) {
      const auto size = ::read(err_.native_handle(), bytes, sizeof bytes);
      if (size <= 0) { break; }
      kept_.append(bytes, static_cast<std::size_t>(size));
      if (kept_.size() > most_kept_bytes) { break; }
    }
  }
  std::vector<std::string> lines;
  for (const auto& line : split(kept_, '\n')) {
    if (const auto words = trim(line); !words.empty()) { lines.emplace_back(words); }
  }
  return excerpt(join(lines, "; "), most_kept_bytes);
}

void LauncherWords::stop() {
  if (err_.is_open()) { err_.cancel(); }
}

}  // namespace virtrain::harness
