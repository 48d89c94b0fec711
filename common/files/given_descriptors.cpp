#include "common/files/given_descriptors.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <unistd.h>

#include <set>
#include <utility>

#include "common/files/reading.h"
#include "common/text/units.h"

namespace virtrain {
namespace {

std::set<int>& given() {
  static std::set<int> descriptors;
  return descriptors;
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

}  // namespace

void keep_given_descriptors() {
  for (const auto& name : entry_names("/proc/self/fd")) {
    const auto number = static_cast<int>(parse_integer(name).value_or(-1));
    if (is_open(number)) { given().insert(number); }  // the one that listed them is closed by now
  }
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

std::optional<int> named_descriptor(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  const auto name = file == "/dev/stdin"                               ? "0"
                    : file == "/dev/stdout"                            ? "1"
                    : file == "/dev/stderr"                            ? "2"
                    : folder == "/dev/fd" || folder == "/proc/self/fd" ? file.filename().string()
                                                                       : "";
  if (name.empty()) { return std::nullopt; }
  const auto number = parse_integer(name).value_or(-1);
  return std::in_range<int>(number) ? static_cast<int>(number) : -1;
}

bool was_given(int descriptor) {
  return is_open(descriptor) && (descriptor <= STDERR_FILENO || given().contains(descriptor));
}

}  // namespace virtrain
