#include "workloads/common/shared_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "common/error.h"

namespace virtrain {

void* load_library(const std::string& name, const std::vector<std::string>& folders,
                   const std::string& advice) {
  void* loaded = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string failure = loaded == nullptr ? dlerror() : "";
  for (const std::string& folder : folders) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    if (loaded == nullptr) { loaded = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); }
  }
  if (loaded != nullptr) { return loaded; }
  std::string words = failure + "; not in";
  for (const std::string& folder : folders) { words += " " + folder; }
  throw Error("load " + name, ErrorCode::host_unable, words + " either (" + advice + ")");
}

}  // namespace virtrain
