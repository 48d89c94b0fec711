#include "harness/scenario/decode/input_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"
#include "harness/scenario/yaml/yaml_shape.h"

namespace virtrain::harness {

std::string input_name(const std::string& path) {
  return path == "-" ? "<stdin>" : path;
}

std::string read_input_file(const std::string& path, const std::string& where_else) {
  const UniqueFd file =
      path == "-" ? UniqueFd(::dup(STDIN_FILENO)) : open_to_read(path, Readable::regular_file_or_pipe);
  // One byte more than is allowed shows that there are too many.
  auto text = file ? read_at_most(file.get(), max_scenario_bytes + 1) : std::nullopt;
  if (text) { return std::move(*text); }
  const int failed = errno;
  const auto name = input_name(path);
  const auto why = failed == EINVAL ? "it is neither a regular file nor a pipe (\"-\" reads standard input)"
                                    : std::generic_category().message(failed);
  throw Error("read " + name, ErrorCode::bad_input,
              failed == ENOENT   ? fmt::format("{}: no such file ({})", name, where_else)
              : failed == EISDIR ? name + " is a folder; give a file in it"
                                 : fmt::format("{}:1:1: the file cannot be read: {}", name, why));
}

std::optional<YAML::Node> parse_input(const std::string& text, const std::string& file_name,
                                      Diagnostics& diagnostics) {
  if (text.size() > max_scenario_bytes) {
    throw Error("read " + file_name, ErrorCode::bad_input,
                fmt::format("{}:1:1: the file has more than 1 MiB (allowed: at most 1 MiB)", file_name));
  }
  if (const auto bad = find_invalid_utf8(text); bad != std::string::npos) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n') + 1;
    const auto column = bad - (bad == 0 ? 0 : text.rfind('\n', bad - 1) + 1) + 1;
    throw Error(
        "read " + file_name, ErrorCode::bad_input,
        fmt::format("{}:{}:{}: these bytes are not UTF-8 (save the file as UTF-8)", file_name, line, column));
  }
  if (!check_yaml_shape(text, diagnostics)) { return std::nullopt; }
  return YAML::Load(text);
}

}  // namespace virtrain::harness
