#include "vmctl/machine/cpu_models.h"

#include <algorithm>
#include <vector>

#include "common/error.h"
#include "common/text/text.h"

namespace virtrain::vmctl {

void check_cpu_model(const std::string& name, const std::filesystem::path& root) {
  constexpr std::string_view prefix = "x86_", suffix = ".xml";  // a file for each model, and a few others
  std::vector<std::string> models;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(root / "usr/share/libvirt/cpu_map", none)) {
    const auto file = entry.path().filename().string();
    if (!file.starts_with(prefix) || !file.ends_with(suffix)) { continue; }
    models.push_back(file.substr(prefix.size(), file.size() - prefix.size() - suffix.size()));
  }
  if (models.empty() || std::find(models.begin(), models.end(), name) != models.end()) { return; }
  const auto near = nearest_word(name, models);
  throw Error("use guest.cpu_model " + name, ErrorCode::host_unable,
              "libvirt has no such model (virsh cpu-models x86_64 lists them" +
                  (near ? "; did you mean " + *near + "?)" : std::string(")")));
}

}  // namespace virtrain::vmctl
