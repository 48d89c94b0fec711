#pragma once

#include <cstdio>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>

namespace virtrain::results {

/// A file without a name that goes when this goes: for text that can be read only once, or that is packed.
class TemporaryText {
 public:
  TemporaryText();
  /// Where it can be opened for reading, while this lives.
  std::filesystem::path path() const;
  /// Throws Error(io) with `what` if the bytes cannot be kept.
  void write(std::string_view bytes, const std::string& what);
  /// All that comes until the end.
  void copy(std::istream& in, const std::string& what);
  /// After the last byte, before the file is read.
  void finish(const std::string& what);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace virtrain::results
