#include "vmctl/guest/newc.h"

#include <fmt/format.h>

namespace virtrain::vmctl {
namespace {

void pad_to_four(std::string& archive) {
  archive.resize((archive.size() + 3) / 4 * 4, '\0');
}

void append_member(std::string& archive, std::string_view name, unsigned mode, std::string_view content) {
  const unsigned links = 1;
  archive +=
      fmt::format("070701{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}", 0,
                  mode, 0, 0, links, 0, content.size(), 0, 0, 0, 0, name.size() + 1, 0);
  archive += name;
  archive += '\0';
  pad_to_four(archive);
  archive += content;
  pad_to_four(archive);
}

}  // namespace

std::string newc_archive(std::string_view name, std::string_view content) {
  constexpr unsigned executable_file = 0100755;
  std::string archive;
  append_member(archive, name, executable_file, content);
  append_member(archive, "TRAILER!!!", 0, {});
  return archive;
}

}  // namespace virtrain::vmctl
