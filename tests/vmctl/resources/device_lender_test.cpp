#include "vmctl/resources/device_lender.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "tests/support/first_in_path.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/resources/cleanup.h"
#include "vmctl/resources/devices/vgpu_scheduler.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* first_function = "0000:41:00.5";
constexpr const char* second_function = "0000:41:00.6";

DeviceGrant vgpu(const char* address, const std::string& type) {
  return {GrantKind::vendor_vfio, address, "0000:41:00.0", type};
}

/// Runs `work` where /sys is a card's two virtual functions, plain files that keep what is written to them: a
/// vGPU's type is there before the next one is asked for. The mounts are the thread's own.
template <typename Work>
void beside_a_card(Work work) {
  test::need_root();
  bool could_mount = false;
  std::thread([&] {
    could_mount = ::unshare(CLONE_NEWNS) == 0 &&
                  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                  ::mount("none", "/sys", "tmpfs", 0, nullptr) == 0;
    if (!could_mount) { return; }
    for (const char* address : {first_function, second_function}) {
      const auto folder = fs::path("/sys/bus/pci/devices") / address / "nvidia";
      fs::create_directories(folder);
      std::ofstream(folder / "current_vgpu_type") << "0\n";
      std::ofstream(folder / "creatable_vgpu_types") << "ID    : vGPU Name\n901   : LAB-1Q\n902   : LAB-2Q\n";
    }
    work();
  }).join();
  if (!could_mount) { test::skip("cannot mount in a namespace of its own"); }
}

std::string types_now() {
  std::string types;
  for (const char* address : {first_function, second_function}) {
    types +=
        read_value(fs::path("/sys/bus/pci/devices") / address / "nvidia/current_vgpu_type").value_or("") +
        " ";
  }
  return types;
}

TEST_CASE("each VM gets vGPUs that are made for it, in the places of those that were lent") {
  beside_a_card([] {
    const TemporaryFolder folder;
    LeaseJournal journal(folder.path / "leases.db");
    DeviceLender lender(journal, this_process("e1", ""));
    CHECK(lender.lend({vgpu(first_function, "901"), vgpu(second_function, "901")}) == 2);
    CHECK(lender.lend({vgpu(first_function, "901")}) == 1);  // its manager clears it, as it makes it again
    CHECK(types_now() == "901 0 ");
    CHECK(lender.lend({vgpu(first_function, "902")}) == 1);
    CHECK(types_now() == "902 0 ");
    CHECK(lender.lend({vgpu(first_function, "902"), vgpu(second_function, "902")}) == 2);
    CHECK(types_now() == "902 902 ");
    CHECK(lender.lent() == 2);
    CHECK(journal.effects().size() == 2);
    CHECK(lender.end().empty());
    CHECK(types_now() == "0 0 ");
  });
}

TEST_CASE("what cannot be lent for others leaves nothing lent") {
  beside_a_card([] {
    const TemporaryFolder folder;
    LeaseJournal journal(folder.path / "leases.db");
    DeviceLender lender(journal, this_process("e1", ""));
    lender.lend({vgpu(first_function, "901")});
    CHECK_THROWS_AS(lender.lend({vgpu(second_function, "902"), vgpu(first_function, "904")}), Error);
    CHECK(types_now() == "0 0 ");
    CHECK(lender.lent() == 0);
    CHECK(journal.effects().empty());
  });
}

TEST_CASE("a card's scheduler is set before it carries vGPUs, and put back when they are gone") {
  void* const nvml = ::dlopen(FAKE_NVML, RTLD_NOW);  // found by its name from now on
  REQUIRE(nvml != nullptr);
  beside_a_card([] {
    const TemporaryFolder folder;
    LeaseJournal journal(folder.path / "leases.db");
    const VgpuScheduling as_found{1, 1, 2'000'000};
    const std::string card = "0000:41:00.0";
    CHECK(read_vgpu_scheduling(card) == as_found);
    DeviceLender lender(journal, this_process("e1", ""));
    const auto both = {vgpu(first_function, "901"), vgpu(second_function, "901")};
    lender.lend(both, {{}, VgpuScheduler::equal_share});
    CHECK(read_vgpu_scheduling(card).policy == 2);
    CHECK(types_now() == "901 901 ");
    CHECK(journal.effects().size() == 3);
    CHECK_THROWS_WITH(set_vgpu_scheduling(card, as_found),
                      Catch::Contains("nvmlDeviceSetVgpuSchedulerState: Unknown Error") &&
                          Catch::Contains("carries no vGPU"));
    lender.lend(both, {{}, VgpuScheduler::fixed_share});  // the next arm
    CHECK(read_vgpu_scheduling(card).policy == 3);
    lender.lend(both, {{}, VgpuScheduler::best_effort});
    CHECK(read_vgpu_scheduling(card) == as_found);
    lender.lend(both, {{}, VgpuScheduler::fixed_share});
    lender.lend(both);  // an arm that says nothing
    CHECK(read_vgpu_scheduling(card) == as_found);
    CHECK_THROWS_AS(lender.lend({vgpu(first_function, "904")}, {{}, VgpuScheduler::equal_share}), Error);
    CHECK(lender.end().empty());
    CHECK(read_vgpu_scheduling(card) == as_found);
    CHECK(journal.effects().empty());
  });
  CHECK_THROWS_WITH(read_vgpu_scheduling("0000:01:00.0"), Catch::Contains("read the vGPU scheduler"));
  ::dlclose(nvml);
}

TEST_CASE("what is reset between tenants is reset before each VM, and not lent where that fails") {
  beside_a_card([] {
    const TemporaryFolder folder;
    LeaseJournal journal(folder.path / "leases.db");
    DeviceLender lender(journal, this_process("e1", ""));
    const auto file = fs::path("/sys/bus/pci/devices") / first_function / "reset";
    auto grant = vgpu(first_function, "901");
    grant.between_tenants = BetweenTenants::reset;
    CHECK_THROWS_AS(lender.lend({grant}), Error);
    CHECK(lender.lent() == 0);
    CHECK(types_now() == "0 0 ");
    for (int vm = 0; vm < 2; ++vm) {
      std::ofstream(file) << "";
      CHECK(lender.lend({grant}) == 1);
      CHECK(read_value(file) == "1");
    }
    std::ofstream(file) << "";
    lender.lend({grant, vgpu(second_function, "901")});
    CHECK(read_value(file) == "1");
    fs::remove(file);
    CHECK_THROWS_AS(lender.lend({grant}), Error);
    CHECK(lender.end().empty());
  });
}

TEST_CASE("services that take hold of GPUs are away until the last run that lends them ends") {
  beside_a_card([] {
    const TemporaryFolder folder;
    REQUIRE(::mount("none", "/run", "tmpfs", 0, nullptr) == 0);
    fs::create_directories("/run/systemd/system");
    fs::create_symlink("../../../bus/pci/drivers/nvidia",
                       fs::path("/sys/bus/pci/devices") / first_function / "driver");
    const auto unit = folder.path / "nvidia-persistenced.service";
    const auto stands_for = [&](const char* program, const std::string& script) {
      std::ofstream(folder.path / program) << "#!/bin/sh\n" << script;
      fs::permissions(folder.path / program, fs::perms::owner_all);
    };
    stands_for("nvidia-smi", "echo '[N/A], Enabled, [N/A], [N/A]'\n");
    stands_for("systemctl",
               fmt::format("for unit; do :; done\ncd {}\ncase $1 in\n  is-active) [ -e $unit ];;\n"
                           "  stop) rm $unit;;\n  start) echo > $unit;;\nesac\n",
                           folder.path.string()));
    const FirstInPath stands_for_the_real_ones(folder.path);
    std::ofstream(unit) << "\n";

    LeaseJournal journal(folder.path / "leases.db");
    DeviceLender first(journal, this_process("e1", "")), second(journal, this_process("e2", ""));
    const std::vector<DeviceGrant> grants{vgpu(first_function, "901")};
    first.keep_services_away(grants);
    CHECK_FALSE(fs::exists(unit));
    second.keep_services_away(grants);
    CHECK(journal.effects().size() == 1);
    CHECK(first.end().empty());
    CHECK_FALSE(fs::exists(unit));  // the second one needs it away
    CHECK(second.end().empty());
    CHECK(fs::exists(unit));
    CHECK(journal.effects().empty());

    DeviceLender bound(journal, this_process("e3", ""), /*may_change_host=*/false);
    CHECK_THROWS_WITH(bound.keep_services_away(grants),
                      Catch::Contains("--no-host-changes") && Catch::Contains("nvidia-persistenced"));
    CHECK(fs::exists(unit));
  });
}

TEST_CASE("/dev/kvm is opened to QEMU's user, said, and closed again by the last run or by clean") {
  test::need_root();
  if (::getgrnam("kvm") == nullptr) { test::skip("there is no group kvm"); }
  const TemporaryFolder folder;
  const auto device = (folder.path / "kvm").string();
  const auto mode = [&] {
    struct stat status {};
    return ::stat(device.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  };
  std::ofstream(device) << "";
  ::chmod(device.c_str(), 0600);
  LeaseJournal journal(folder.path / "leases.db");
  DeviceLender first(journal, this_process("e1", "")), second(journal, this_process("e2", ""));
  CHECK(first.open_kvm_device(device).find("is open to group kvm") != std::string::npos);
  CHECK(mode() == 0660);
  REQUIRE(journal.effects().size() == 1);
  CHECK(second.open_kvm_device(device).empty());
  CHECK(first.end().empty());
  CHECK(mode() == 0660);  // the second one needs it
  CHECK(second.end().empty());
  CHECK(mode() == 0600);
  CHECK(journal.effects().empty());

  // What a killed run left, clean puts back from the journal; what somebody else has set since then stays.
  {
    DeviceLender killed(journal, this_process("e3", ""));
    killed.open_kvm_device(device);
    CHECK_THROWS_WITH(undo_and_forget(journal, journal.effects().at(0)),
                      Catch::Contains("another run uses it"));
    CHECK(mode() == 0660);
  }
  undo_and_forget(journal, journal.effects().at(0));
  CHECK(mode() == 0600);
  DeviceLender again(journal, this_process("e5", ""));
  again.open_kvm_device(device);
  ::chmod(device.c_str(), 0666);
  CHECK(again.end().empty());
  CHECK(mode() == 0666);

  ::chmod(device.c_str(), 0600);
  DeviceLender bound(journal, this_process("e4", ""), /*may_change_host=*/false);
  CHECK(bound.open_kvm_device(device).find("--no-host-changes") != std::string::npos);
  CHECK(mode() == 0600);
  CHECK(bound.end().empty());
  std::string use = "use:" + device;
  std::replace(use.begin(), use.end(), '/', '_');
  fs::remove(claims_folder() / use);
}

}  // namespace
}  // namespace virtrain::vmctl
