#include "vmctl/slice/resctrl.h"

#include "common/files/open_folder.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

void find_groups(Search& search) {
  for (const auto& group : find_resctrl_groups()) {
    const auto name = group.filename().string();
    search.add_unmarked(folder_owner(group),
                        {EffectKind::resctrl, group.string(), "", "resctrl group with a node's name"},
                        search.used_slices.contains(name) || search.is_live_name(name));
  }
}

void remove_group_of_node(const Leftover& found, Hypervisor* /*unused*/) {
  remove_resctrl_group(found.name);
}

}  // namespace

const Handler resctrl_handler{
    .kind = EffectKind::resctrl, .find = find_groups, .remove = remove_group_of_node};

}  // namespace virtrain::vmctl
