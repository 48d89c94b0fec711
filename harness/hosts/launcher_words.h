#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <string>

#include "common/files/unique_fd.h"

namespace virtrain::harness {

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
