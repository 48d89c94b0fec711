#include "harness/schedule/installer.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/system/user_folders.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

class Systemd : public Installer {
 public:
  Systemd(std::filesystem::path folder, bool system) : folder_(std::move(folder)), system_(system) {}

  std::string name() const override { return system_ ? "systemd" : "systemd (user)"; }

  void install(const Schedule& schedule, const std::filesystem::path& program,
               const Environment& environment) override {
    std::filesystem::create_directories(folder_);
    write_file_atomically(file(schedule, ".service"), service_unit(schedule, program, system_, environment));
    write_file_atomically(file(schedule, ".timer"), timer_unit(schedule));
    try {
      control({"daemon-reload"});
      control({"enable", "--now", unit_name(schedule) + ".timer"});
    } catch (const Error&) {
      delete_units(schedule);
      throw;
    }
  }

  void remove(const Schedule& schedule) override {
    if (!std::filesystem::exists(file(schedule, ".timer"))) { return; }
    control({"disable", "--now", unit_name(schedule) + ".timer"});
    delete_units(schedule);
    control({"daemon-reload"});
  }

 private:
  std::filesystem::path file(const Schedule& schedule, const char* suffix) const {
    return folder_ / (unit_name(schedule) + suffix);
  }
  void delete_units(const Schedule& schedule) const {
    std::filesystem::remove(file(schedule, ".service"));
    std::filesystem::remove(file(schedule, ".timer"));
  }
  void control(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "systemctl");
    if (!system_) { arguments.insert(arguments.begin() + 1, "--user"); }
    run_checked(arguments);
  }

  std::filesystem::path folder_;
  bool system_;
};

class Cron : public Installer {
 public:
  std::string name() const override { return "cron"; }

  void install(const Schedule& schedule, const std::filesystem::path& program,
               const Environment& environment) override {
    change([&](const std::string& table) { return crontab_with(table, schedule, program, environment); });
  }
  void remove(const Schedule& schedule) override {
    change([&](const std::string& table) { return crontab_without(table, schedule.name); });
  }

 private:
  static std::string read() {
    CommandOptions options;
    options.environment = {"LC_ALL=C"};
    const auto listed = run_command({"crontab", "-l"}, options);
    if (listed.exit_status == 0) { return listed.out; }
    // Only a table that is known not to be there counts as empty: else the user's lines would be lost.
    if (listed.err.find("no crontab for") != std::string::npos) { return ""; }
    throw Error("read the crontab", ErrorCode::io, excerpt(listed.err) + "; it was left as it is");
  }

  static void write(const std::string& table) {
    CommandOptions options;
    options.input = table;
    run_checked({"crontab", "-"}, options);
  }

  template <typename Edit>
  static void change(Edit&& edit) {
    const auto lock = ScheduleBook().lock_crontab();
    const auto before = read();
    const auto after = edit(before);
    if (after == before) { return; }
    write(after);
    if (read() == after) { return; }
    write(before);
    throw Error("change the crontab", ErrorCode::io, "it did not read back as written; it was put back");
  }
};

}  // namespace

Environment folder_variables() {
  Environment found;
  for (const char* name : {"XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"}) {
    if (const auto folder = chosen_folder(name); !folder.empty()) { found[name] = folder.string(); }
  }
  for (const char* name : {"VIRTRAIN_STATE_DIR", "VIRTRAIN_CACHE_DIR"}) {
    const char* folder = std::getenv(name);
    if (folder != nullptr && *folder != '\0') { found[name] = std::filesystem::absolute(folder).string(); }
  }
  return found;
}

std::unique_ptr<Installer> systemd_installer(const std::filesystem::path& folder, bool system) {
  return std::make_unique<Systemd>(folder, system);
}

std::unique_ptr<Installer> find_installer() {
  std::error_code ignored;
  // As sd_booted(3).
  if (std::filesystem::is_directory("/run/systemd/system", ignored)) {
    if (::geteuid() == 0) { return systemd_installer("/etc/systemd/system", true); }
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr &&
        std::filesystem::exists(std::filesystem::path(runtime) / "systemd/private", ignored)) {
      return systemd_installer(user_folder("XDG_CONFIG_HOME", ".config") / "systemd/user", false);
    }
  }
  if (!on_path("crontab").empty()) { return std::make_unique<Cron>(); }
  throw Error(
      "find what starts schedules", ErrorCode::host_unable,
      "neither systemd nor cron is here; install cron, or start virtrain schedule run NAME by other means");
}

}  // namespace virtrain::harness
