#include "vmctl/journal/leases.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/other_user.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/process/host_claims.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

struct TemporaryJournal {
  TemporaryFolder folder;
  fs::path file = folder.path / "leases.db";
};

/// Runs `work` in a process of its own, which then stays until it is killed.
class OtherProcess {
 public:
  template <typename Work>
  explicit OtherProcess(Work work) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const char outcome = work() ? '1' : '0';
      if (::write(ready[1], &outcome, 1) != 1) { ::_exit(1); }
      while (true) { ::pause(); }
    }
    ::close(ready[1]);
    char outcome = '?';
    CHECK(::read(ready[0], &outcome, 1) == 1);
    worked = outcome == '1';
    ::close(ready[0]);
  }
  ~OtherProcess() { kill_hard(); }
  void kill_hard() {
    if (pid_ <= 0) { return; }
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  bool worked = false;

 private:
  pid_t pid_ = 0;
};

ErrorCode code_of_acquire(LeaseJournal& journal, const Owner& owner,
                          const std::vector<std::string>& resources, std::string* message = nullptr) {
  try {
    journal.acquire(owner, resources);
  } catch (const Error& error) {
    if (message != nullptr) { *message = error.what(); }
    return error.code();
  }
  return ErrorCode::interrupted;  // stands for "it worked"
}
constexpr ErrorCode it_worked = ErrorCode::interrupted;

TEST_CASE("a resource of a live process is busy, one of a killed process is free") {
  const TemporaryJournal temporary;
  OtherProcess other([&] {
    LeaseJournal journal(temporary.file);
    journal.acquire(this_process("theirs", "/results/theirs.db"), {"core:0", "core:1"});
    return true;
  });
  REQUIRE(other.worked);
  LeaseJournal journal(temporary.file);
  const auto ours = this_process("ours", "/results/ours.db");
  std::string message;
  CHECK(code_of_acquire(journal, ours, {"core:7", "core:1"}, &message) == ErrorCode::busy);
  CHECK(message.find("core:1") != std::string::npos);
  CHECK(message.find("theirs") != std::string::npos);
  // all or nothing: core:7 was free and is not ours now
  for (const auto& lease : journal.leases()) { CHECK(lease.owner.experiment == "theirs"); }

  other.kill_hard();
  CHECK(code_of_acquire(journal, ours, {"core:7", "core:1"}) == it_worked);
  CHECK(journal.leases().size() == 3);  // the dead owner still has core:0, for clean to see
}

TEST_CASE("a journal whose disk is full says what to do") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  const auto ours = this_process("a", "a.db");
  std::string message;
  {
    const FileSizeLimit limit(100);
    CHECK(code_of_acquire(journal, ours, {"core:0"}, &message) == ErrorCode::io);
  }
  CHECK_THAT(message, virtrain::test::Contains("leases.db; free space on that disk)"));
  CHECK(code_of_acquire(journal, ours, {"core:0"}) == it_worked);
}

TEST_CASE("what an owner holds is no conflict for itself, and release gives back") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  const auto first = this_process("a", "a.db"), second = this_process("b", "b.db");
  journal.acquire(first, {"core:0"});
  CHECK(code_of_acquire(journal, first, {"core:0", "core:1"}) == it_worked);
  CHECK(code_of_acquire(journal, second, {"core:0"}) == ErrorCode::busy);
  journal.release(second, {"core:0"});  // not theirs to give
  CHECK(code_of_acquire(journal, second, {"core:0"}) == ErrorCode::busy);
  journal.release(first, {"core:0"});
  CHECK(code_of_acquire(journal, second, {"core:0"}) == it_worked);
  journal.release_all(first);
  journal.release_all(second);
  CHECK(journal.leases().empty());
  CHECK(journal.owners().empty());
}

TEST_CASE("owners of another boot or with a reused pid are dead") {
  auto owner = this_process("a", "a.db");
  CHECK(is_alive(owner));
  auto other_boot = owner;
  other_boot.boot_id = "00000000-0000-0000-0000-000000000000";
  CHECK_FALSE(is_alive(other_boot));
  auto reused = owner;
  reused.start_time += 1;
  CHECK_FALSE(is_alive(reused));
}

TEST_CASE("a run that nobody sees lives while it holds its claim beside the journal") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  const auto ours = this_process("ours", "/results/ours.db");
  auto in_container = this_process("20261128t040000-5ec2e7", "/results/theirs.db");
  in_container.start_time += 1;  // its process has a number of another namespace
  auto on_other_host = in_container;
  on_other_host.boot_id = "00000000-0000-0000-0000-000000000000";
  journal.acquire(in_container, {"core:0"});
  CHECK_FALSE(is_alive(in_container));
  {
    HostClaims living(living_folder());
    living.take({experiment_claim + in_container.experiment}, "a test");
    CHECK(is_alive(in_container));
    CHECK(is_alive(on_other_host));
    CHECK(code_of_acquire(journal, ours, {"core:0"}) == ErrorCode::busy);
    CHECK(journal.leased_cores() == std::vector<int>{0});
    journal.release(in_container, {"core:0"});
    // Another host has cores and devices of its own.
    journal.acquire(on_other_host, {"core:0", "device:0000:41:00.0"});
    CHECK(journal.leased_cores().empty());
    CHECK(journal.device_owners().empty());
    CHECK(code_of_acquire(journal, ours, {"core:0"}) == it_worked);
  }
  CHECK_FALSE(is_alive(in_container));
  CHECK_FALSE(is_alive(on_other_host));
}

TEST_CASE("effects outlive the process that announced them, newest first") {
  const TemporaryJournal temporary;
  OtherProcess other([&] {
    LeaseJournal journal(temporary.file);
    const auto owner = this_process("theirs", "/results/theirs.db");
    journal.done(journal.intent(owner, EffectKind::network, "virtrain-theirs-a"));
    journal.undone(journal.intent(owner, EffectKind::file, "/tmp/gone"));
    journal.intent(owner, EffectKind::domain, "virtrain-theirs-1");
    return true;
  });
  other.kill_hard();
  LeaseJournal journal(temporary.file);
  const auto effects = journal.effects();
  REQUIRE(effects.size() == 2);
  CHECK(effects[0].kind == EffectKind::domain);
  CHECK(effects[0].name == "virtrain-theirs-1");
  CHECK_FALSE(effects[0].done);
  CHECK(effects[1].kind == EffectKind::network);
  CHECK(effects[1].done);
  CHECK(effects[1].owner.results_db == "/results/theirs.db");
  CHECK_FALSE(is_alive(effects[1].owner));
}

TEST_CASE("many processes at once: exactly one gets the resource") {
  const TemporaryJournal temporary;
  { LeaseJournal made(temporary.file); }
  int winners = 0;
  constexpr int processes = 6;
  std::vector<std::unique_ptr<OtherProcess>> others;
  others.reserve(processes);
  for (int i = 0; i < processes; ++i) {
    others.push_back(std::make_unique<OtherProcess>([&] {
      LeaseJournal journal(temporary.file);
      return code_of_acquire(journal, this_process("e" + std::to_string(::getpid()), "r.db"), {"core:0"}) ==
             it_worked;
    }));
  }
  for (const auto& other : others) { winners += other->worked ? 1 : 0; }
  CHECK(winners == 1);
}

TEST_CASE("the journal keeps a truncated rollback file and stays whole") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  journal.acquire(this_process("a", "a.db"), {"core:0"});
  const auto rollback = temporary.file.string() + "-journal";  // journal_mode=TRUNCATE keeps it, empty
  CHECK((fs::exists(rollback) && fs::file_size(rollback) == 0));
  CHECK(run_checked({"sqlite3", temporary.file.string(), "PRAGMA integrity_check"}).out == "ok\n");
}

TEST_CASE("what was before an effect travels with it") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  const auto owner = this_process("a", "a.db");
  journal.intent(owner, EffectKind::binding, "0000:17:00.0", R"({"driver":"nvidia"})");
  const auto effects = journal.effects();
  REQUIRE(effects.size() == 1);
  CHECK(effects[0].kind == EffectKind::binding);
  CHECK(effects[0].state == R"({"driver":"nvidia"})");
}

TEST_CASE("an owner with something still to undo is remembered at its end, others are forgotten") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  const auto owner = this_process("a", "a.db");
  journal.acquire(owner, {"device:0000:17:00.0"});
  const auto id = journal.intent(owner, EffectKind::binding, "0000:17:00.0");
  journal.end(owner);
  CHECK(journal.leases().empty());
  CHECK(journal.effects().size() == 1);
  journal.undone(id);
  journal.end(owner);
  CHECK(journal.owners().empty());
}

TEST_CASE("a device in quarantine is lent to nobody until that is lifted, and the first reason stays") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  journal.quarantine("0000:17:00.0", "it does not answer");
  journal.quarantine("0000:17:00.0", "again");
  REQUIRE(journal.quarantined().size() == 1);
  CHECK(journal.quarantined()[0].reason == "it does not answer");
  const auto owner = this_process("a", "a.db");
  std::string words;
  CHECK(code_of_acquire(journal, owner, {"core:0", "device:0000:17:00.0"}, &words) == ErrorCode::host_unable);
  CHECK(words.find("it does not answer") != std::string::npos);
  CHECK(journal.leases().empty());
  CHECK(journal.lift_quarantine("0000:17:00.0"));
  CHECK_FALSE(journal.lift_quarantine("0000:17:00.0"));
  journal.acquire(owner, {"core:0", "device:0000:17:00.0"});
  CHECK(journal.leases().size() == 2);
}

TEST_CASE("a journal of the first version is brought up to date with what it holds") {
  const TemporaryJournal temporary;
  run_checked({"sqlite3", temporary.file.string(),
               ".read " + std::string(VIRTRAIN_SOURCE_DIR) + "/vmctl/journal/leases.sql"});
  run_checked({"sqlite3", temporary.file.string(),
               "INSERT INTO owner VALUES (1, 999999, 1, 'boot', 'old', 'old.db');"
               "INSERT INTO effect (owner, kind, name) VALUES (1, 'domain', 'virtrain-old-1')"});
  for (int opened = 0; opened < 2; ++opened) {
    LeaseJournal journal(temporary.file);
    REQUIRE(journal.effects().size() == 1);
    CHECK(journal.effects()[0].name == "virtrain-old-1");
    CHECK(journal.effects()[0].state.empty());
    CHECK(journal.quarantined().empty());
  }
}

TEST_CASE("a file that is no database is an error with SQLite's words") {
  const TemporaryJournal temporary;
  run_checked({"sh", "-c", "yes garbage | head -c 8192 > " + temporary.file.string()});
  try {
    LeaseJournal journal(temporary.file);
    FAIL("garbage was opened");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("not a database") != std::string::npos);
  }
}

TEST_CASE("a journal of a newer version, or with a lease of a kind that is not known, is left alone") {
  const TemporaryJournal temporary;
  LeaseJournal journal(temporary.file);
  journal.intent(this_process("x", ""), EffectKind::file, "/tmp/precious");
  SQLite::Database database(temporary.file.string(), SQLite::OPEN_READWRITE);
  database.exec("UPDATE effect SET kind = 'kind_of_a_newer_version'");
  CHECK_THROWS_WITH(journal.effects(), virtrain::test::Contains("kind_of_a_newer_version"));
  database.exec("PRAGMA user_version = 3");
  CHECK_THROWS_WITH(LeaseJournal(temporary.file),
                    virtrain::test::Contains("newer virtrain (version 3, this one"));
}

TEST_CASE("row 11: no other user can lock the journal, also one that an older version left open to all") {
  const TemporaryJournal temporary;
  fs::permissions(temporary.folder.path, fs::perms(0755));
  const auto mode = [&](const char* suffix) {
    struct stat status {};
    return ::stat((temporary.file.string() + suffix).c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  };
  const mode_t before = ::umask(0);
  { LeaseJournal made(temporary.file); }
  ::umask(before);
  CHECK(mode("") == 0600);
  for (const char* suffix : {"", "-journal"}) {
    run_checked({"touch", temporary.file.string() + suffix});
    ::chmod((temporary.file.string() + suffix).c_str(), 0644);
  }
  LeaseJournal journal(temporary.file);
  CHECK(mode("") == 0600);
  journal.acquire(this_process("x", ""), {"core:1"});
  CHECK(mode("-journal") == 0600);
  if (::geteuid() != 0) { return; }
  CHECK_FALSE(test::as_stranger([&] { return ::open(temporary.file.c_str(), O_RDONLY) >= 0; }));
}

}  // namespace
}  // namespace virtrain::vmctl
