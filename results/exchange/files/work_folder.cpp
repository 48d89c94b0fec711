#include "results/exchange/files/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "common/error.h"

namespace virtrain::results {

WorkFolder::WorkFolder(const std::filesystem::path& beside) {
  const auto place = std::filesystem::absolute(beside);
  std::string name = place.parent_path() / ("." + place.filename().string() + ".XXXXXX");
  if (::mkdtemp(name.data()) == nullptr) { throw errno_error("make " + name, errno); }
  path = name;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace virtrain::results
