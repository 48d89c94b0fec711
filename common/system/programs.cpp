#include "common/system/programs.h"

#include <string>

#include "common/error.h"

namespace virtrain {

namespace fs = std::filesystem;

fs::path sibling_program(std::string_view name) {
  std::error_code failed;
  const auto here = fs::read_symlink("/proc/self/exe", failed).parent_path();
  // Beside us (a build tree), or where `cmake --install` puts helpers, and what users start.
  for (const auto& candidate :
       {here / name, here / "../libexec/virtrain" / name, here / "../../bin" / name}) {
    if (fs::exists(candidate)) { return candidate.lexically_normal(); }
  }
  throw Error(
      "find " + std::string(name), ErrorCode::not_found,
      "it should lie in " + here.string() + " or ../libexec/virtrain; build all targets or reinstall");
}

}  // namespace virtrain
