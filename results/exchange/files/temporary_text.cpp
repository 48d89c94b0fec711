#include "results/exchange/files/temporary_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <istream>
#include <vector>

#include "common/error.h"

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

void TemporaryText::copy(std::istream& in, const std::string& what) {
  std::vector<char> piece(std::size_t{1} << 16);
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    write({piece.data(), static_cast<std::size_t>(in.gcount())}, what);
  }
  finish(what);
}

void TemporaryText::finish(const std::string& what) {
  if (std::fflush(file_.get()) == 0) { return; }
  throw Error("read " + what, ErrorCode::io, "it could not be copied to a temporary file");
}

}  // namespace virtrain::results
