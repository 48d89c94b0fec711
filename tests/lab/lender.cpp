// virtrain-lab-lender KIND ADDRESS [PHYSICAL-FUNCTION|- [TYPE [UUID [BETWEEN-TENANTS]]]]: leases one device,
// lends it and gives it back, as `virtrain run` does for one arm, but without VM and trainer: so quick that
// it can be killed at every single step. Prints "lent", then waits for the end of its input. Exit status 0,
// or 1 with the reason in words.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "common/error.h"
#include "vmctl/journal/leases.h"
#include "vmctl/resources/device_lender.h"

namespace {

namespace vmctl = virtrain::vmctl;

vmctl::GrantKind parse_kind(const std::string& word) {
  for (const auto kind : {vmctl::GrantKind::passthrough, vmctl::GrantKind::virtual_function,
                          vmctl::GrantKind::mdev, vmctl::GrantKind::vendor_vfio}) {
    if (word == vmctl::to_string(kind)) { return kind; }
  }
  throw virtrain::Error("read the kind", virtrain::ErrorCode::usage, word + " is none");
}

vmctl::DeviceGrant parse_grant(std::vector<std::string> words) {
  constexpr std::size_t fields = 6;
  words.resize(fields);
  vmctl::DeviceGrant grant{parse_kind(words[0]), words[1]};
  if (words[2] != "-") { grant.physical_function = words[2]; }
  grant.vgpu_type = words[3];
  grant.uuid = words[4];
  for (const auto policy : {vmctl::BetweenTenants::reset, vmctl::BetweenTenants::erase}) {
    if (words[5] == vmctl::to_string(policy)) { grant.between_tenants = policy; }
  }
  return grant;
}

/// How many devices could not be given back.
std::size_t lend_and_give_back(const vmctl::DeviceGrant& grant) {
  vmctl::LeaseJournal journal;
  const auto owner = vmctl::this_process("lab-lender", "");
  journal.acquire(owner, {"device:" + grant.address});
  vmctl::DeviceLender lender(journal, owner);
  lender.lend({grant});
  fmt::print("lent\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) { continue; }
  const auto failures = lender.end();
  for (const auto& failure : failures) { fmt::print("{}\n", failure); }
  journal.end(owner);
  return failures.size();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto failures = lend_and_give_back(parse_grant({argv + 1, argv + argc}));
    if (failures == 0) { fmt::print("given back\n"); }
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& failure) {
    fmt::print("{}\n", failure.what());
    return 1;
  }
}
