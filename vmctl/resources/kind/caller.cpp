#include "vmctl/resources/kind/caller.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "common/system/process_info.h"

namespace virtrain::vmctl {

Caller this_caller() {
  Caller caller;
  caller.user = ::geteuid();
  for (const auto& process : all_processes()) {
    if (process.name != "virtrain" && process.name != "virtrain-host") { continue; }
    const auto user = user_of(process.pid);
    if (user && *user != 0 && *user != caller.user) { caller.other_harnesses.insert(*user); }
  }
  return caller;
}

std::string reason_to_leave(const Caller& caller, std::optional<uid_t> holder) {
  if (caller.user != 0) { return holder == caller.user ? "" : "of another user, left alone"; }
  if (holder) {
    return *holder == 0 ? "" : fmt::format("of user {}, whose own virtrain clean removes it", *holder);
  }
  const auto& others = caller.other_harnesses;
  return others.empty() ? ""
                        : fmt::format("perhaps of user {}, whose virtrain runs, left alone", *others.begin());
}

std::optional<uid_t> holder_of(std::optional<uid_t> user) {
  if (!user || *user == 0) { return std::nullopt; }
  const passwd* account = ::getpwuid(*user);
  const std::string_view name = account != nullptr ? account->pw_name : "";
  return name == "libvirt-qemu" || name == "qemu" ? std::nullopt : user;
}

}  // namespace virtrain::vmctl
