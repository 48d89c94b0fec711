// Plants leaks on this host and looks whether they are found. Root only.

#include "vmctl/resources/cleanup.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "common/files/unique_fd.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/stub_client.h"
#include "tests/support/temporary_folder.h"
#include "tests/vmctl/resources/support.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/net_devices.h"
#include "vmctl/slice/slice.h"
#include "vmctl/slice/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// What libvirt would say, without libvirt.
class FakeHypervisor final : public Hypervisor {
 public:
  HypervisorVersions versions() override { return {}; }
  void create_network(const NetworkSpec&) override {}
  void destroy_network(const std::string& name) override {
    std::erase_if(all_networks, [&](const auto& network) { return network.name == name; });
  }
  void create_domain(const DomainSpec&) override {}
  UniqueFd open_channel(const std::string&) override { return {}; }
  std::string domain_description(const std::string&) override { return {}; }
  void destroy_domain(const std::string& name) override {
    std::erase_if(all_domains, [&](const auto& domain) { return domain.name == name; });
  }
  DomainStats domain_stats(const std::string&) override { return {}; }
  std::vector<DomainInfo> domains() override {
    if (on_look) { on_look(); }
    return all_domains;
  }
  std::vector<NetworkInfo> networks() override { return all_networks; }
  std::vector<NodeDevice> pci_devices() override { return {}; }

  std::vector<DomainInfo> all_domains;
  std::vector<NetworkInfo> all_networks;
  std::function<void()> on_look;  ///< what happens on the host while the search goes on
};

/// A domain of experiment lost as virtrain names it.
constexpr const char* lost = "20261120t083012-0057ab";
constexpr const char* unmarked = "virtrain-20261120t083012-0057ab-1";

fs::path temporary(const std::string& name) {
  return fs::temp_directory_path() / ("virtrain-cleanup-" + std::to_string(::getpid()) + "-" + name);
}

/// A journal of the test's own.
struct TemporaryJournal {
  explicit TemporaryJournal(const std::string& name) : file(temporary(name + ".db")), journal(file) {}
  ~TemporaryJournal() {
    for (const auto* end : {"", "-journal"}) { fs::remove(file.string() + end); }
  }
  const fs::path file;
  LeaseJournal journal;
};

/// An owner that was alive in this boot and is dead now.
Owner dead_owner(const std::string& experiment) {
  const pid_t child = ::fork();
  if (child == 0) { ::pause(); }
  const auto info = process_info(child);
  Owner owner{child, info ? info->start_time : 1, boot_id(), experiment, "/results/" + experiment + ".db"};
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return owner;
}

using Mark = std::function<bool(const std::string& database, const std::string& experiment)>;

/// As `virtrain clean` does it: owners are forgotten once their experiments are marked.
CleanupResult clean_and_mark(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal& journal,
                             const Mark& mark) {
  auto result = clean(view, hypervisor, &journal);
  std::set<std::string> marked;
  for (const auto& run : result.dead) {
    if (mark(run.database, run.experiment)) { marked.insert(run.experiment); }
  }
  for (const auto& owner : result.forgettable) {
    if (marked.contains(owner.experiment)) { journal.release_all(owner); }
  }
  return result;
}

TEST_CASE(
    "domains and networks: ours by mark or name are leftovers, a live owner's are in use, others nobody's "
    "business") {
  const auto file = temporary("leases.db");
  {
    LeaseJournal journal(file);
    const auto live = this_process("live", "/results/live.db");
    const auto dead = dead_owner("dead");
    journal.acquire(live, {"core:9000"});
    journal.acquire(dead, {"core:9001"});
    FakeHypervisor libvirt;
    libvirt.all_domains = {{"virtrain-dead-1", "u", LeaseMark{"dead", "n"}},
                           {"renamed", "u", LeaseMark{"dead", "n"}},
                           {unmarked, "u", std::nullopt},
                           {"virtrain-live-1", "u", LeaseMark{"live", "n"}},
                           {"virtrain-dev", "u", std::nullopt},
                           {"virtrain-20261120t083012-0057ab", "u", std::nullopt},
                           {"somebody's", "u", std::nullopt}};
    libvirt.all_networks = {{"virtrain-dead-a", "vtx", LeaseMark{"dead", "a"}},
                            {"virtrain-lab", "vtlab0", std::nullopt},
                            {"default", "virbr0", std::nullopt}};

    const auto view = find_leftovers(&libvirt, &journal, Caller{});
    CHECK(has(view.leftovers, EffectKind::domain, "virtrain-dead-1"));
    CHECK(has(view.leftovers, EffectKind::domain, "renamed"));
    CHECK(has(view.leftovers, EffectKind::domain, unmarked));
    CHECK(has(view.leftovers, EffectKind::network, "virtrain-dead-a"));
    CHECK(has(view.in_use, EffectKind::domain, "virtrain-live-1"));
    CHECK_FALSE(has(view.leftovers, EffectKind::domain, "somebody's"));
    CHECK_FALSE(has(view.leftovers, EffectKind::network, "default"));
    // nor what a person has named like ours
    for (const auto* name : {"virtrain-dev", "virtrain-20261120t083012-0057ab"}) {
      CHECK(has(view.foreign, EffectKind::domain, name));
      CHECK_FALSE(has(view.leftovers, EffectKind::domain, name));
    }
    CHECK(has(view.foreign, EffectKind::network, "virtrain-lab"));
    CHECK_FALSE(has(view.leftovers, EffectKind::network, "virtrain-lab"));
    // domains go before the network they are on
    const auto position = [&](const std::string& name) {
      return std::find_if(view.leftovers.begin(), view.leftovers.end(),
                          [&](const auto& l) { return l.name == name; });
    };
    CHECK(position("virtrain-dead-1") < position("virtrain-dead-a"));

    CleanupView domains_only;
    domains_only.dead_owners = view.dead_owners;
    for (const auto& leftover : view.leftovers) {
      if (leftover.kind == EffectKind::domain || leftover.kind == EffectKind::network) {
        domains_only.leftovers.push_back(leftover);
      }
    }
    std::set<std::pair<std::string, std::string>> marked;
    const auto mark = [&](const std::string& database, const std::string& experiment) {
      return marked.emplace(database, experiment).second;
    };
    const auto result = clean_and_mark(domains_only, &libvirt, journal, mark);
    CHECK(result.failed.empty());
    CHECK(libvirt.all_domains.size() == 4);
    CHECK(marked == std::set<std::pair<std::string, std::string>>{{"/results/dead.db", "dead"}, {"", lost}});
    REQUIRE(journal.owners().size() == 1);
    CHECK(journal.owners()[0].experiment == "live");
    CHECK(clean(domains_only, &libvirt, &journal).failed.empty());  // again is fine
  }
  fs::remove(file);
  fs::remove(file.string() + "-journal");
}

TEST_CASE("an owner is forgotten once its experiment is marked, not before") {
  TemporaryJournal temporary("mark");
  auto& journal = temporary.journal;
  journal.acquire(dead_owner("busy"), {"core:9003"});
  journal.acquire(dead_owner("fine"), {"core:9004"});
  CleanupView view;
  view.dead_owners = journal.owners();
  const auto one_is_busy = [](const std::string&, const std::string& experiment) {
    return experiment != "busy";
  };
  clean_and_mark(view, nullptr, journal, one_is_busy);
  REQUIRE(journal.owners().size() == 1);
  CHECK(journal.owners()[0].experiment == "busy");
  CHECK(journal.owners()[0].results_db == "/results/busy.db");
  clean(view, nullptr, &journal);  // nobody to mark it
  CHECK(journal.owners().size() == 1);
  journal.acquire(this_process("next", ""), {"core:9003"});  // what it held is free all the same
  clean_and_mark(view, nullptr, journal, [](const auto&, const auto&) { return true; });
  REQUIRE(journal.owners().size() == 1);
  CHECK(journal.owners()[0].experiment == "next");
}

TEST_CASE("how a device was stays in the journal while a live run has it") {
  TemporaryJournal temporary("twice-lent");
  auto& journal = temporary.journal;
  const auto dead = dead_owner("dead");
  journal.acquire(dead, {"device:0000:41:00.0"});
  const Effect effect{.owner = dead, .kind = EffectKind::binding, .name = "0000:41:00.0"};
  CleanupView view;
  view.dead_owners = journal.owners();
  view.in_use = {{EffectKind::binding, "0000:41:00.0", "dead", "bound to vfio-pci", effect}};
  const auto marked = [](const auto&, const auto&) { return true; };
  clean_and_mark(view, nullptr, journal, marked);
  CHECK(journal.owners().size() == 1);
  view.in_use[0].effect->owner = this_process("live", "");
  clean_and_mark(view, nullptr, journal, marked);
  CHECK(journal.owners().empty());
}

TEST_CASE("what a dead run has changed of a device stays so while a live run has the device") {
  TemporaryJournal temporary("live-card");
  auto& journal = temporary.journal;
  const auto dead = dead_owner("dead-card");
  journal.acquire(dead, {"device:0000:41:00.0"});
  journal.intent(dead, EffectKind::device_settings, "0000:41:00.0", "{}");
  FakeHypervisor libvirt;
  auto view = find_leftovers(&libvirt, &journal, Caller{});
  CHECK(has(view.leftovers, EffectKind::device_settings, "0000:41:00.0"));
  journal.acquire(this_process("live-card", ""), {"device:0000:41:00.0"});
  view = find_leftovers(&libvirt, &journal, Caller{});
  CHECK(has(view.in_use, EffectKind::device_settings, "0000:41:00.0"));
}

TEST_CASE("what another clean has put back since the search is not put back again") {
  TemporaryJournal temporary("stale-view");
  auto& journal = temporary.journal;
  const auto dead = dead_owner("stale");
  journal.acquire(dead, {"device:0000:41:00.0"});
  const auto id = journal.intent(dead, EffectKind::device_settings, "0000:41:00.0", "not even a state");
  auto effect = journal.effects().at(0);
  CleanupView view;
  view.dead_owners = journal.owners();
  view.leftovers = {{EffectKind::device_settings, effect.name, "stale", "settings", effect}};
  const auto marked = [](const auto&, const auto&) { return true; };
  SECTION("struck off") {
    journal.undone(id);
    CHECK(clean_and_mark(view, nullptr, journal, marked).failed.empty());
  }
  SECTION("taken over") {
    journal.intent(this_process("next", ""), EffectKind::device_settings, effect.name, "{}");
    const auto result = clean_and_mark(view, nullptr, journal, marked);
    REQUIRE(result.failed.size() == 1);
    CHECK_THAT(result.failed[0].second, virtrain::test::Contains("experiment next has it now"));
  }
  CHECK(journal.quarantined().empty());
}

TEST_CASE("a run's own libvirt daemon, which nobody ends any more, ends with its folder") {
  const TemporaryFolder folder;
  TemporaryJournal temporary("daemon-left");
  const auto program = folder.path / "libvirtd", runtime = folder.path / "vt-run";
  fs::copy_file("/bin/sleep", program);
  fs::create_directory(runtime);
  const auto start = [&](const fs::path& said) {
    const std::string variable = "XDG_RUNTIME_DIR=" + said.string();
    const pid_t pid = ::fork();
    if (pid == 0) {
      const char* const environment[] = {variable.c_str(), nullptr};
      ::execle(program.c_str(), "libvirtd", "100", nullptr, environment);
      ::_exit(127);
    }
    while (process_variable(pid, "XDG_RUNTIME_DIR") != said.string()) {}
    return pid;
  };
  const auto its = start(runtime), other = start(folder.path);
  temporary.journal.intent(dead_owner("daemon-left"), EffectKind::file, runtime.string());
  FakeHypervisor libvirt;
  auto view = find_leftovers(&libvirt, &temporary.journal, Caller{});
  std::erase_if(view.leftovers, [&](const Leftover& one) { return one.name != runtime.string(); });
  clean(view, &libvirt, &temporary.journal);
  CHECK_FALSE(fs::exists(runtime));
  CHECK(::waitpid(its, nullptr, WNOHANG) == its);
  CHECK(::waitpid(other, nullptr, WNOHANG) == 0);
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST_CASE("what begins while clean looks around is in use") {
  TemporaryJournal temporary("late");
  FakeHypervisor libvirt;
  libvirt.all_domains = {{"virtrain-late-1", "u", LeaseMark{"late", "n"}}, {unmarked, "u", std::nullopt}};
  libvirt.on_look = [&] { temporary.journal.acquire(this_process("late", ""), {"core:9005"}); };
  const auto view = find_leftovers(&libvirt, &temporary.journal, Caller{});
  CHECK(has(view.in_use, EffectKind::domain, "virtrain-late-1"));
  CHECK_FALSE(has(view.leftovers, EffectKind::domain, "virtrain-late-1"));
  CHECK(has(view.leftovers, EffectKind::domain, unmarked));
}

TEST_CASE("what the journal does not know may be somebody else's: who cleans it") {
  constexpr uid_t my_uid = 1000, other_uid = 1001;
  const Caller me{my_uid, {other_uid}, false}, root{0, {}, false}, root_beside_other{0, {other_uid}, false};
  CHECK(reason_to_leave(me, my_uid).empty());
  CHECK(reason_to_leave(me, other_uid) == "of another user, left alone");
  CHECK(reason_to_leave(me, 0) == "of another user, left alone");
  CHECK(reason_to_leave(me, std::nullopt) == "of another user, left alone");
  // libvirt's system instance says not for whom: as long as any other user's virtrain runs, it may be theirs.
  CHECK(reason_to_leave(root, std::nullopt).empty());
  CHECK(reason_to_leave(root, 0).empty());
  // A process of a user's own says what it likes of itself: root removes none.
  CHECK(reason_to_leave(root, other_uid) == "of user 1001, whose own virtrain clean removes it");
  CHECK(reason_to_leave(root_beside_other, std::nullopt) ==
        "perhaps of user 1001, whose virtrain runs, left alone");
  CHECK(reason_to_leave(root_beside_other, my_uid) == "of user 1000, whose own virtrain clean removes it");
  CHECK(reason_to_leave(root_beside_other, 0).empty());
}

TEST_CASE("a user cleans what their own journal knows, and all of a libvirt of their own") {
  const auto file = temporary("user.db");
  {
    LeaseJournal journal(file);
    journal.acquire(dead_owner("mine"), {"core:9002"});
    FakeHypervisor libvirt;
    libvirt.all_domains = {{"virtrain-mine-1", "u", LeaseMark{"mine", "n"}},
                           {"virtrain-roots-1", "u", LeaseMark{"roots", "n"}},
                           {unmarked, "u", std::nullopt}};
    libvirt.all_networks = {{"virtrain-roots-t0", "vtx", LeaseMark{"roots", "n"}}};
    Caller user{1000, {}, false};
    const auto shared = find_leftovers(&libvirt, &journal, user);
    CHECK(has(shared.leftovers, EffectKind::domain, "virtrain-mine-1"));
    for (const auto* name : {"virtrain-roots-1", unmarked}) {
      CHECK(has(shared.foreign, EffectKind::domain, name));
      CHECK_FALSE(has(shared.leftovers, EffectKind::domain, name));
    }
    CHECK(has(shared.foreign, EffectKind::network, "virtrain-roots-t0"));
    user.own_libvirt = true;
    CHECK(has(find_leftovers(&libvirt, &journal, user).leftovers, EffectKind::domain, "virtrain-roots-1"));

    const auto beside = find_leftovers(&libvirt, &journal, Caller{0, {1000}, false});
    CHECK(has(beside.leftovers, EffectKind::domain, "virtrain-mine-1"));
    CHECK(has(beside.foreign, EffectKind::domain, "virtrain-roots-1"));
  }
  fs::remove(file);
  fs::remove(file.string() + "-journal");
}

TEST_CASE("row 12: what a live run with another state folder has is in use") {
  test::need_root();
  const std::string experiment = "20261120t083012-07e57a";
  FakeHypervisor libvirt;
  libvirt.all_domains = {{"virtrain-20261120t083012-07e57a-1", "u", LeaseMark{experiment, "n"}}};
  TemporaryJournal temporary("other-state");  // which does not know it
  {
    HostClaims run(claims_folder());
    run.take({experiment_claim + experiment}, "a test");
    const auto during = find_leftovers(&libvirt, &temporary.journal, Caller{});
    CHECK(has(during.in_use, EffectKind::domain, libvirt.all_domains[0].name));
    CHECK_FALSE(has(during.leftovers, EffectKind::domain, libvirt.all_domains[0].name));
  }
  CHECK(has(find_leftovers(&libvirt, &temporary.journal, Caller{}).leftovers, EffectKind::domain,
            libvirt.all_domains[0].name));
}

TEST_CASE("a killed harness's slice is found and removed without a journal, and foreign devices stay") {
  test::need_root();
  create_bridge("vtb1eaced0", "", "leaked");
  run_checked({"ip", "link", "add", "vtforeign", "type", "bridge"});
  run_checked({"ip", "link", "set", "vtforeign", "alias", "somebody's"});
  int said[2];
  REQUIRE(::pipe(said) == 0);
  const pid_t harness = ::fork();
  if (harness == 0) {
    SliceSpec spec;
    spec.name = "vt-1eaced-1";
    spec.experiment = "leaked";
    spec.hostname = "s";
    spec.cores = {0};
    spec.memory_bytes = 128U << 20;
    spec.network = {"vtb1eaced0", "vtv1eaced1", "10.78.8.11/24"};
    spec.argv = {VIRTRAIN_BINARY_DIR "/virtrain-stub-agent"};
    spec.temporary_folder = "/tmp/own";
    const auto made = start_slice(spec);
    test::StubClient client(made->take_channel());
    client.line();
    if (::write(said[1], "x", 1) < 0) { ::_exit(1); }
    while (true) { ::pause(); }
  }
  char ready = 0;
  REQUIRE(::read(said[0], &ready, 1) == 1);
  const auto during = find_leftovers(nullptr, nullptr);
  CHECK(has(during.in_use, EffectKind::netns, "vt-1eaced-1"));
  ::kill(harness, SIGKILL);
  ::waitpid(harness, nullptr, 0);
  const std::string temporary = "/dev/shm/virtrain-vt-1eaced-1-0123456789abcdef";
  make_folder_of(temporary, {::geteuid(), ::getegid()});

  const auto view = find_leftovers(nullptr, nullptr);
  CHECK(has(view.leftovers, EffectKind::file, temporary));
  CHECK(has(view.leftovers, EffectKind::netns, "vt-1eaced-1"));
  CHECK(has(view.leftovers, EffectKind::veth, "vtv1eaced1"));
  CHECK(has(view.leftovers, EffectKind::bridge, "vtb1eaced0"));
  CHECK(has(view.foreign, EffectKind::bridge, "vtforeign"));
  CleanupView ours;  // other harnesses may have leftovers on this host, which are not this test's
  for (const auto& leftover : view.leftovers) {
    if (leftover.name.find("1eaced") != std::string::npos || leftover.experiment == "leaked") {
      ours.leftovers.push_back(leftover);
    }
  }
  const auto result = clean(ours, nullptr, nullptr);
  for (const auto& [leftover, reason] : result.failed) { FAIL_CHECK(leftover.name << ": " << reason); }
  const auto after = find_leftovers(nullptr, nullptr);
  for (const auto& list : {after.leftovers, after.in_use}) {
    for (const auto& leftover : list) { CHECK(leftover.name.find("1eaced") == std::string::npos); }
  }
  const auto links = list_links();
  CHECK(std::find(links.begin(), links.end(), "vtforeign") != links.end());
  delete_link("vtforeign");
}

/// Makes network devices and namespaces with plain ip(8), and removes them whatever happens.
struct PlainDevices {
  PlainDevices() { remove(); }
  ~PlainDevices() { remove(); }
  static void remove() {
    for (const auto* device :
         {"vtv00dead1", "vtv00dead2", "vtlab0", "vtb00dead0", "vtb00deads0", "vtb00a11e0"}) {
      run_command({"ip", "link", "del", device});
    }
    for (const auto* name : {"vt-lab", "vt-00dead-1"}) { run_command({"ip", "netns", "del", name}); }
  }
};

TEST_CASE("without a mark a prefix makes nothing ours, and the tag of a live experiment proves use") {
  test::need_root();
  const PlainDevices devices;
  for (const auto* bridge : {"vtlab0", "vtb00dead0", "vtb00deads0", "vtb00a11e0"}) {
    run_checked({"ip", "link", "add", bridge, "type", "bridge"});
  }
  for (const auto* name : {"vt-lab", "vt-00dead-1"}) { run_checked({"ip", "netns", "add", name}); }
  // Their other end has another index, as a veth's has. Not every kernel knows both.
  run_command({"ip", "link", "add", "link", "vtlab0", "name", "vtv00dead1", "type", "macvlan"});
  run_command({"ip", "link", "add", "link", "vtlab0", "name", "vtv00dead2", "type", "vlan", "id", "5"});
  TemporaryJournal temporary("tags");
  temporary.journal.acquire(this_process("20261120t083012-00a11e", ""), {"core:9006"});

  const auto view = find_leftovers(nullptr, &temporary.journal);
  for (const auto* device : {"vtv00dead1", "vtv00dead2"}) {
    if (!fs::exists(fs::path("/sys/class/net") / device)) { continue; }
    CHECK(link_kind(device) == LinkKind::other);
    CHECK(has(view.foreign, EffectKind::bridge, device));
    CHECK_FALSE(has(view.leftovers, EffectKind::veth, device));
  }
  CHECK(has(view.foreign, EffectKind::bridge, "vtlab0"));
  CHECK_FALSE(has(view.leftovers, EffectKind::bridge, "vtlab0"));
  CHECK(has(view.foreign, EffectKind::netns, "vt-lab"));
  CHECK_FALSE(has(view.leftovers, EffectKind::netns, "vt-lab"));
  for (const auto* bridge : {"vtb00dead0", "vtb00deads0"}) {
    CHECK(has(view.leftovers, EffectKind::bridge, bridge));
  }
  CHECK(has(view.leftovers, EffectKind::netns, "vt-00dead-1"));
  CHECK(has(view.in_use, EffectKind::bridge, "vtb00a11e0"));
  CHECK_FALSE(has(view.leftovers, EffectKind::bridge, "vtb00a11e0"));
}

/// A loop device with this name in place of its file's, which lives as long as this.
class NamedLoop {
 public:
  NamedLoop(const fs::path& file, const std::string& name) {
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    if (!control) { test::skip("there are no loop devices"); }
    const UniqueFd backing(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    loop_config config{};
    config.fd = static_cast<__u32>(backing.get());
    config.info.lo_flags = LO_FLAGS_READ_ONLY;
    name.copy(reinterpret_cast<char*>(config.info.lo_file_name), LO_NAME_SIZE - 1);
    for (int i = 0; i < 100 && !is_set_; ++i) {
      device_ = "/dev/loop" + std::to_string(::ioctl(control.get(), LOOP_CTL_GET_FREE));
      const UniqueFd loop(::open(device_.c_str(), O_RDONLY | O_CLOEXEC));
      is_set_ = loop && ::ioctl(loop.get(), LOOP_CONFIGURE, &config) == 0;
    }
    REQUIRE(is_set_);
  }
  ~NamedLoop() {
    if (is_there()) { run_command({"losetup", "-d", device_}); }
  }
  NamedLoop(const NamedLoop&) = delete;
  NamedLoop& operator=(const NamedLoop&) = delete;

  bool is_there() const {
    return fs::exists("/sys/block/" + fs::path(device_).filename().string() + "/loop");
  }
  const std::string& device() const { return device_; }

 private:
  std::string device_;
  bool is_set_ = false;
};

TEST_CASE("a loop device is a leftover by its mark and its slice's name, and no stranger's is detached") {
  test::need_root();
  const TemporaryFolder folder;
  const auto file = folder.path / "image";
  std::ofstream(file) << std::string(8192, 'x');
  TemporaryJournal temporary("loops");
  temporary.journal.acquire(this_process("20261120t083012-00a11e", ""), {"core:9007"});
  const NamedLoop dead(file, "virtrain:vt-00dead-7"), open(file, "virtrain:vt-00dead-8"),
      alive(file, "virtrain:vt-00a11e-7"), similar(file, "virtrain:lab"), strange(file, "vt-00dead-7"),
      plain(file, file.string());

  const auto view = find_leftovers(nullptr, &temporary.journal);
  CHECK(has(view.leftovers, EffectKind::loop, "vt-00dead-7"));
  CHECK(has(view.leftovers, EffectKind::loop, "vt-00dead-8"));
  CHECK(has(view.in_use, EffectKind::loop, "vt-00a11e-7"));
  CHECK(has(view.foreign, EffectKind::loop, "lab"));
  CleanupView just_loops;
  for (const auto& one : view.leftovers) {
    if (one.kind != EffectKind::loop || !one.name.starts_with("vt-00dead-")) { continue; }
    CHECK(one.detail.find(one.name.ends_with('7') ? dead.device() : open.device()) == 0);
    just_loops.leftovers.push_back(one);
  }
  CHECK(just_loops.leftovers.size() == 2);

  const UniqueFd holder(::open(open.device().c_str(), O_RDONLY | O_CLOEXEC));
  const auto result = clean(just_loops, nullptr, nullptr);
  REQUIRE(result.failed.size() == 1);
  CHECK(result.failed[0].first.name == "vt-00dead-8");
  CHECK(result.failed[0].second.find("a process still has it mounted or open (" + open.device()) !=
        std::string::npos);
  CHECK_FALSE(dead.is_there());
  for (const auto* other : {&open, &alive, &similar, &strange, &plain}) { CHECK(other->is_there()); }
  CHECK_FALSE(has(find_leftovers(nullptr, nullptr).leftovers, EffectKind::loop, "vt-00dead-7"));
}

TEST_CASE("a cgroup to try limits is left over once the process that made it is dead") {
  test::need_root();
  const pid_t dead = ::fork();
  if (dead == 0) { ::_exit(0); }
  ::waitpid(dead, nullptr, 0);
  constexpr std::uint64_t some_memory = 64U << 20;
  const auto make = [&](const std::string& maker) {
    return make_slice_cgroups("vt-try-" + maker, {0}, some_memory).folders;
  };
  const auto left = make(std::to_string(dead)), used = make(std::to_string(::getpid())), other = make("lab");
  const auto view = find_leftovers(nullptr, nullptr);
  for (const auto& folder : left) { CHECK(has(view.leftovers, EffectKind::cgroup, folder)); }
  for (const auto& folder : used) { CHECK(has(view.in_use, EffectKind::cgroup, folder)); }
  for (const auto& folder : other) { CHECK(has(view.foreign, EffectKind::cgroup, folder)); }
  for (const auto* folders : {&left, &used, &other}) {
    for (const auto& folder : *folders) { CHECK(remove_cgroup(folder)); }
  }
  if (left.empty()) { test::skip("no cgroups can be made here"); }
}

TEST_CASE("an agent without a harness is a leftover, a process of another name is not") {
  const auto program = temporary("bin") / "virtrain-agent";
  fs::create_directories(program.parent_path());
  fs::copy_file("/bin/sleep", program);
  // The shell in between ends, so that the sleeper is nobody's child. It waits until the sleeper has been
  // executed, for only a group of its own survives the end of run_checked().
  const std::string script =
      "setsid " + program.string() +
      " 1000 >/dev/null 2>&1 & pid=$!; "
      "until [ \"$(cat /proc/$pid/comm)\" = virtrain-agent ]; do sleep 0.01; done; echo $pid";
  const auto pid = static_cast<pid_t>(std::stol(run_checked({"sh", "-c", script}).out));
  const auto view = find_leftovers(nullptr, nullptr);
  CHECK(has(view.leftovers, EffectKind::process, std::to_string(pid)));
  for (const auto& leftover : view.leftovers) {  // so that nobody else of that number is ended
    if (leftover.name == std::to_string(pid)) { CHECK(leftover.start_time == process_info(pid)->start_time); }
  }
  CHECK_FALSE(has(view.leftovers, EffectKind::process, std::to_string(::getppid())));
  CleanupView just_it;
  just_it.leftovers = {{EffectKind::process, std::to_string(pid), "", ""}};
  CHECK(clean(just_it, nullptr, nullptr).failed.empty());
  CHECK_FALSE(has(find_leftovers(nullptr, nullptr).leftovers, EffectKind::process, std::to_string(pid)));
  fs::remove_all(program.parent_path());
}

}  // namespace
}  // namespace virtrain::vmctl
