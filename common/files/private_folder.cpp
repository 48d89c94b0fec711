#include "common/files/private_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <system_error>

#include "common/error.h"

namespace virtrain {

std::filesystem::path temporary_folder() {
  std::error_code none;
  auto folder = std::filesystem::temp_directory_path(none);
  return none ? "/tmp" : folder;
}

PrivateFolder::PrivateFolder(const std::string& operation, const std::filesystem::path& above) {
  auto name = (above / ".virtrain-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) { throw errno_error(operation, errno); }
  path_ = name;
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace virtrain
