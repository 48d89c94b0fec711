#include <fmt/ostream.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "harness/cli/arguments.h"
#include "harness/cli/choices.h"
#include "harness/cli/cli.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_scenario.h"
#include "harness/hosts/named_host.h"
#include "harness/scenario/decode/hosts.h"
#include "results/store/store.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::harness {
namespace {

constexpr int something_left = 6;
constexpr std::size_t longest_detail = 1000;

struct CleanArguments {
  std::string lift_quarantine;
  std::string experiment;          ///< empty: all
  std::filesystem::path database;  ///< of experiments whose database the journal does not tell; empty: none
  bool verify = false;
  HostsArguments hosts;
  std::optional<Elevation> elevation;
  std::string connect_uri;  ///< empty: the system's, or the user's own session where that is out of reach
};

void print_leftovers(const char* heading, const std::vector<vmctl::LeftoverWords>& leftovers) {
  for (const auto& l : leftovers) {
    fmt::print(std::cout, "{}: {} {}{} ({})\n", heading, l.kind, excerpt(l.name),
               l.experiment.empty() ? "" : " of " + excerpt(l.experiment), excerpt(l.detail, longest_detail));
  }
}

/// Marks experiments interrupted in their results databases.
class Marker {
 public:
  /// `database`: of experiments whose database the journal does not tell; empty: none. `is_elsewhere`: the
  /// journal is another host's, whose paths are those of whoever ran there, from here or elsewhere.
  explicit Marker(std::filesystem::path database, bool is_elsewhere)
      : database_(std::move(database)), is_elsewhere_(is_elsewhere) {}

  /// False: it still has to be marked. In a database that is gone there is nothing to mark.
  bool mark(const std::filesystem::path& told_database, const std::string& experiment) {
    asked_.insert(experiment);
    // A path that another host tells is opened only where it is the one of this user's runs.
    const bool is_ours = !is_elsewhere_ || database_option(told_database).empty();
    const auto known_database = is_elsewhere_ && !database_.empty() ? database_ : told_database;
    if (!is_ours && !told_database.empty() && database_.empty()) {
      failed_ = true;
      log::warning(
          "an interrupted experiment is not marked, for its database is not this user's default one; on the "
          "machine that started it: virtrain clean --hosts HOSTS --db FILE",
          {{"experiment", experiment}, {"database", told_database.string()}});
      return false;
    }
    const auto& database = known_database.empty() ? database_ : known_database;
    if (database.empty()) {
      log::warning(
          "an interrupted experiment is not marked, for its database is not known; if you know it: virtrain "
          "clean --experiment EXPERIMENT --db FILE",
          {{"experiment", experiment}});
      return true;
    }
    try {
      results::Store store(database, results::Store::Mode::open);
      if (store.mark_interrupted(experiment)) {
        fmt::print(std::cout, "interrupted: experiment {} in {}\n", excerpt(experiment),
                   excerpt(database.string()));
      }
      return true;
    } catch (const std::exception& error) {
      std::error_code unknown;
      const bool gone = !std::filesystem::exists(database, unknown) && !unknown;
      log::warning(
          gone ? "an interrupted experiment is not marked, for its database is gone"
               : "an interrupted experiment could not be marked; fix that and run virtrain clean again",
          {{"experiment", experiment}, {"reason", error.what()}});
      failed_ = failed_ || !gone;
      return gone;
    }
  }

  /// One that was named with its database and of which neither the journal nor a leftover tells.
  void mark_named(const std::string& experiment, const vmctl::Leftovers& found) {
    if (experiment.empty() || database_.empty() || asked_.contains(experiment)) { return; }
    const auto is_its = [&](const vmctl::LeftoverWords& one) { return one.experiment == experiment; };
    if (found.live.contains(experiment) || std::any_of(found.foreign.begin(), found.foreign.end(), is_its) ||
        may_be_of(found.others)) {
      return log::warning("the experiment is not marked interrupted, for it may still run",
                          {{"experiment", experiment}});
    }
    mark("", experiment);
  }

  bool has_failed() const { return failed_; }

 private:
  /// Whether the database is of one of these users: of their runs, those between two trials have nothing that
  /// others could see.
  bool may_be_of(const std::set<unsigned>& users) const {
    struct stat status {};
    return ::stat(database_.c_str(), &status) == 0 && users.contains(status.st_uid);
  }

  std::filesystem::path database_;
  bool is_elsewhere_;
  std::set<std::string> asked_;
  bool failed_ = false;
};

void lift_quarantine(const std::string& address, vmctl::HostLending& host) {
  if (!host.lift_quarantine(address)) {
    throw Error("lift the quarantine of " + address, ErrorCode::usage, "it is not in quarantine");
  }
  fmt::print(std::cout, "{} is released from quarantine\n", address);
}

/// Looks at what a host process finds with its privileges, and removes it, unless it is only to be looked at.
/// Returns whether nothing was there, or `cli` says what is wrong.
bool clean_by(vmctl::Host& host, const CleanArguments& arguments, Cli& cli, bool is_elsewhere = false) {
  const auto found = host.leftovers(arguments.connect_uri, arguments.experiment);
  print_leftovers("foreign, not touched", found.foreign);
  for (const auto& device : found.quarantined) {
    fmt::print(std::cout,
               "in quarantine since {}: {} ({}; not assigned until virtrain clean --lift-quarantine {})\n",
               excerpt(device.since), excerpt(device.address), excerpt(device.reason, longest_detail),
               excerpt(device.address));
  }
  if (arguments.verify) {
    print_leftovers("left over", found.left);
    if (!found.left.empty()) { cli.exit_status = something_left; }
    return found.left.empty();
  }
  Marker marker(arguments.database, is_elsewhere);
  const auto result = host.clean();
  std::vector<std::string> marked;
  for (const auto& run : result.dead) {
    if (marker.mark(run.database, run.experiment)) { marked.push_back(run.experiment); }
  }
  host.forget(marked);
  marker.mark_named(arguments.experiment, found);
  print_leftovers("removed", result.removed);
  for (const auto& [leftover, reason] : result.failed) {
    fmt::print(std::cout, "not removed: {} {}: {}\n", leftover.kind, excerpt(leftover.name),
               excerpt(reason, longest_detail));
  }
  const bool something_failed = !result.failed.empty() || marker.has_failed();
  if (something_failed) { cli.exit_status = something_left; }
  return result.removed.empty() && !something_failed;
}

/// A user's own runs have left something that only the user's own process finds, those with root's privileges
/// something that only root's does.
void clean_here(const CleanArguments& arguments, Cli& cli) {
  const auto elevation = choose_elevation(arguments.elevation);
  if (!arguments.lift_quarantine.empty()) {
    return lift_quarantine(arguments.lift_quarantine, *open_host({.elevation = elevation}));
  }
  bool nothing = clean_by(*open_host(HostRequest{}), arguments, cli);
  if (elevation != Elevation::none) {
    nothing = clean_by(*open_host({.elevation = elevation}), arguments, cli) && nothing;
  }
  if (nothing) { fmt::print(std::cout, "nothing is left over\n"); }
}

/// One host after the other, each under its name. One that ends meanwhile keeps no other from being cleaned.
void clean_hosts(const CleanArguments& arguments, Cli& cli) {
  auto hosts = open_hosts(hosts_of(arguments.hosts.hosts), {}, arguments.hosts.skip_unreachable);
  std::optional<Error> failed;
  for (auto& one : hosts) {
    fmt::print(std::cout, "{}{}\n", &one == hosts.data() ? "" : "\n", one.name);
    try {
      if (clean_by(*one.host, arguments, cli, true)) { fmt::print(std::cout, "nothing is left over\n"); }
    } catch (const Error& error) {
      log::error(error.what());
      failed = error;
    }
  }
  if (failed) { throw Error(*failed); }
}

void clean(const CleanArguments& arguments, Cli& cli) {
  if (arguments.hosts.hosts.empty()) { return clean_here(arguments, cli); }
  clean_hosts(arguments, cli);
}

}  // namespace

void add_clean_command(Cli& cli) {
  auto* cleaner = cli.app.add_subcommand(
      "clean", "Remove what killed runs left behind; mark their experiments interrupted");
  auto cleaned = std::make_shared<CleanArguments>();
  cleaner->add_flag("--verify", cleaned->verify,
                    "Only look: exit 0 if nothing is left, 6 with the list if something is");
  cleaner
      ->add_option(
          "--connect", cleaned->connect_uri,
          "libvirt's qemu:///system or qemu:///session (default: the system's, or a user's session where "
          "that is out of reach)")
      ->type_name("URI")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(vmctl::libvirt_connections),
                                                     std::end(vmctl::libvirt_connections))));
  cleaner->add_option("--experiment", cleaned->experiment, "What this experiment left, and nothing else")
      ->type_name("EXPERIMENT")
      ->check([](const std::string& id) {
        const bool plain = !id.empty() && std::all_of(id.begin(), id.end(), [](char c) {
          return is_letter(c) || is_digit(c) || c == '-';
        });
        return std::string(plain ? ""
                                 : "it does not look like an experiment's id, such as 20261120t020004-7f3a2b "
                                   "(virtrain list shows them)");
      });
  cleaner
      ->add_option("--db", cleaned->database,
                   "Results database in which to mark experiments interrupted that the lease journal does "
                   "not know")
      ->type_name("FILE");
  add_privileges_option(*cleaner, cleaned->elevation);
  add_hosts_options(*cleaner, cleaned->hosts)->excludes("--privileges");
  cleaner->add_option("--lift-quarantine", cleaned->lift_quarantine, "Release this device from quarantine")
      ->type_name("ADDRESS")
      ->check(not_empty())
      ->excludes("--hosts");
  cleaner->footer(
      "Examples:\n"
      "  virtrain clean --verify\n"
      "  virtrain clean\n"
      "  virtrain clean --hosts hosts.yaml --verify\n"
      "  virtrain clean --experiment 20261120t020004-7f3a2b\n"
      "  virtrain clean --experiment 20261120t020004-7f3a2b --db study.db   one that reads running\n"
      "Exit codes: 0; 6 something is left over or an experiment could not be marked");
  cleaner->callback([cleaned, &cli] { clean(*cleaned, cli); });
}

}  // namespace virtrain::harness
