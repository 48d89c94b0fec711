#include "results/exchange/files/temporary_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <istream>
#include <vector>

#include "common/error.h"
#include "common/files/reading.h"

namespace virtrain::results {

TemporaryText::TemporaryText() : file_(std::tmpfile()) {
  if (!file_) { throw errno_error("make a temporary file", errno); }
}

std::filesystem::path TemporaryText::path() const {
  return fmt::format("/proc/self/fd/{}", ::fileno(file_.get()));
}

void TemporaryText::write(std::string_view bytes, const std::string& what) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) { return; }
  throw Error("read " + what, ErrorCode::io, "it could not be copied to a temporary file");
}

void TemporaryText::take(std::string_view bytes, const std::string& what, std::uint64_t& left,
                         std::uint64_t most_bytes) {
  if (bytes.size() > left) {
    throw Error(what, ErrorCode::bad_input,
                fmt::format("there are more than {} bytes, the most that import reads of a pipe; write them "
                            "to a file and import that",
                            most_bytes));
  }
  left -= bytes.size();
  write(bytes, what);
}

void TemporaryText::copy(std::istream& in, const std::string& what, std::uint64_t most_bytes) {
  std::vector<char> piece(std::size_t{1} << 16);
  for (std::uint64_t left = most_bytes;
       in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0;) {
    take({piece.data(), static_cast<std::size_t>(in.gcount())}, what, left, most_bytes);
  }
  finish(what);
}

void TemporaryText::copy(int pipe, const std::string& what, std::uint64_t most_bytes) {
  std::uint64_t left = most_bytes;
  const bool whole = read_pieces(pipe, [&](std::string_view bytes) {
    take(bytes, what, left, most_bytes);
    return true;
  });
  if (!whole) {
    throw Error(what, ErrorCode::bad_input,
                errno == ETIMEDOUT ? "it is a pipe, and nothing more comes through it"
                                   : "reading failed before its end");
  }
  finish(what);
}

void TemporaryText::finish(const std::string& what) {
  if (std::fflush(file_.get()) == 0) { return; }
  throw Error("read " + what, ErrorCode::io, "it could not be copied to a temporary file");
}

}  // namespace virtrain::results
