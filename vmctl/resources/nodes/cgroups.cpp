#include "vmctl/slice/cgroups.h"

#include "common/error.h"
#include "common/files/open_folder.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

void find_cgroups(Search& search) {
  for (const auto& folder : find_slice_cgroups()) {
    const auto slice = folder.filename().string();
    if (const auto maker = maker_of_tried_cgroup(slice)) {
      search.add_held(folder_owner(folder), {EffectKind::cgroup, folder.string(), "", "cgroup to try limits"},
                      search.processes.contains(*maker));
      continue;
    }
    search.add_unmarked(folder_owner(folder),
                        {EffectKind::cgroup, folder.string(), "", "cgroup with a slice's name"},
                        search.used_slices.contains(slice) || search.is_live_name(slice));
  }
}

void remove_group(const Leftover& found, Hypervisor* /*unused*/) {
  if (!remove_cgroup(found.name)) { throw Error("remove " + found.name, ErrorCode::io, "it is still there"); }
}

}  // namespace

const Handler cgroup_handler{.kind = EffectKind::cgroup, .find = find_cgroups, .remove = remove_group};

}  // namespace virtrain::vmctl
