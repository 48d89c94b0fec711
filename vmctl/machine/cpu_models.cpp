#include "vmctl/machine/cpu_models.h"

#include <vector>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/text.h"

namespace virtrain::vmctl {

void check_cpu_model(const std::string& name, const std::filesystem::path& root) {
  constexpr std::string_view prefix = "x86_", suffix = ".xml";  // a file for each model, and a few others
  std::vector<std::string> models;
  for (const auto& file : entry_names(root / "usr/share/libvirt/cpu_map")) {
    if (!file.starts_with(prefix) || !file.ends_with(suffix)) { continue; }
    models.push_back(file.substr(prefix.size(), file.size() - prefix.size() - suffix.size()));
  }
  if (models.empty() || contains(models, name)) { return; }
  const auto near = nearest_word(name, models);
  throw Error("use guest.cpu_model " + name, ErrorCode::host_unable,
              "libvirt has no such model (virsh cpu-models x86_64 lists them" +
                  (near ? "; did you mean " + *near + "?)" : std::string(")")));
}

}  // namespace virtrain::vmctl
