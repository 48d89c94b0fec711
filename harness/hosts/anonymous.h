#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace virtrain::harness {

/// Replaces what tells whose machine a recording is of, each text by the same other one everywhere.
class Anonymiser {
 public:
  /// `hostname`: as the kernel has it, with its domain or without.
  explicit Anonymiser(std::string hostname);

  /// The content of a recorded file, by its path in the recording.
  std::string content(const std::filesystem::path& path, std::string_view bytes);
  /// A path, whose names may hold an address: "net/enx0242ac110002".
  std::filesystem::path path(const std::filesystem::path& path);

 private:
  std::string words(std::string_view text);
  std::string replaced(std::string_view word);
  std::string numbered(const char* kind, std::string_view word,
                       const std::function<std::string(std::size_t)>& make);

  std::string hostname_;
  bool may_name_host_ = false;  ///< the file that is being written
  std::map<std::string, std::map<std::string, std::string>, std::less<>> others_;  ///< by kind and word
};

/// Replaces all of that in a recorded host, in its folder. Throws Error.
void make_anonymous(const std::filesystem::path& folder);

}  // namespace virtrain::harness
