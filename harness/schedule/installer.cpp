#include "harness/schedule/installer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/user_folders.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

class Systemd : public Installer {
 public:
  Systemd(std::filesystem::path folder, bool system, bool is_reachable)
      : folder_(std::move(folder)), system_(system), is_reachable_(is_reachable) {}

  std::string name() const override { return system_ ? "systemd" : "systemd (user)"; }

  void install(const Schedule& schedule, const std::filesystem::path& program,
               const Environment& environment) override {
    std::filesystem::create_directories(folder_);
    write_file_atomically(file(schedule.name, ".service"),
                          service_unit(schedule, program, system_, environment));
    write_file_atomically(file(schedule.name, ".timer"), timer_unit(schedule));
    try {
      control({"daemon-reload"});
      control({"enable", "--now", unit_name(schedule.name) + ".timer"});
    } catch (const Error&) {
      delete_units(schedule.name);
      throw;
    }
  }

  bool remove(const std::string& schedule) override {
    const auto timer = file(schedule, ".timer");
    if (!std::filesystem::exists(timer)) { return false; }
    if (!is_reachable_) {
      throw Error(
          "remove the timer of schedule " + schedule, ErrorCode::host_unable,
          fmt::format("{} cannot be reached from here, so {} is still there; {}", name(), timer.string(),
                      system_ ? "remove the schedule while systemd runs"
                              : fmt::format("log in as this user, or set XDG_RUNTIME_DIR=/run/user/{}, "
                                            "and remove the schedule again",
                                            ::geteuid())));
    }
    control({"disable", "--now", timer.filename()});
    try {
      // By when its last night began, one added again would make up for a night at once.
      control({"clean", "--what=state", timer.filename()});
    } catch (const Error&) {}  // systemd before version 243 cannot
    delete_units(schedule);
    control({"daemon-reload"});
    return true;
  }

 private:
  std::filesystem::path file(const std::string& schedule, const char* suffix) const {
    return folder_ / (unit_name(schedule) + suffix);
  }
  void delete_units(const std::string& schedule) const {
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
  bool is_reachable_;
};

class Cron : public Installer {
 public:
  std::string name() const override { return "cron"; }

  void install(const Schedule& schedule, const std::filesystem::path& program,
               const Environment& environment) override {
    change([&](const std::string& table) { return crontab_with(table, schedule, program, environment); });
  }
  bool remove(const std::string& schedule) override {
    return change([&](const std::string& table) { return crontab_without(table, schedule); });
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

  /// Whether there was something to change.
  template <typename Edit>
  static bool change(Edit&& edit) {
    const auto lock = ScheduleBook().lock_crontab();
    const auto before = read();
    const auto after = edit(before);
    if (after == before) { return false; }
    write(after);
    if (read() == after) { return true; }
    write(before);
    throw Error("change the crontab", ErrorCode::io, "it did not read back as written; it was put back");
  }
};

/// Whether systemd is there, as sd_booted(3) has it, and the manager of this user's units answers.
bool is_systemd_reachable() {
  std::error_code ignored;
  if (!std::filesystem::is_directory("/run/systemd/system", ignored)) { return false; }
  if (::geteuid() == 0) { return true; }
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr &&
         std::filesystem::exists(std::filesystem::path(runtime) / "systemd/private", ignored);
}

/// Where a user's manager looks for units, by its own environment and not by the caller's.
std::filesystem::path folder_of_user_units() {
  constexpr std::string_view variable = "XDG_CONFIG_HOME=", absolute = "XDG_CONFIG_HOME=/";
  const auto said = run_command({"systemctl", "--user", "show-environment"});
  for (const auto& line : split(said.exit_status == 0 ? said.out : "", '\n')) {
    if (line.starts_with(absolute)) {
      return std::filesystem::path(line.substr(variable.size())) / "systemd/user";
    }
  }
  return home_folder() / ".config/systemd/user";
}

/// The system's for root, else this user's.
std::unique_ptr<Installer> own_systemd() {
  const bool is_reachable = is_systemd_reachable();
  if (::geteuid() == 0) { return systemd_installer("/etc/systemd/system", true, is_reachable); }
  const auto folder =
      is_reachable ? folder_of_user_units() : user_folder("XDG_CONFIG_HOME", ".config") / "systemd/user";
  return systemd_installer(folder, false, is_reachable);
}

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

std::unique_ptr<Installer> systemd_installer(const std::filesystem::path& folder, bool system,
                                             bool is_reachable) {
  return std::make_unique<Systemd>(folder, system, is_reachable);
}

std::unique_ptr<Installer> find_installer() {
  if (is_systemd_reachable()) { return own_systemd(); }
  if (!on_path("crontab").empty()) { return std::make_unique<Cron>(); }
  throw Error("find what starts schedules", ErrorCode::host_unable,
              "neither systemd nor cron is here; install cron, or add the schedule with --no-timer and start "
              "virtrain schedule run NAME by other means");
}

void remove_timer(const std::string& schedule) {
  remove_timer(schedule, *own_systemd());
}

void remove_timer(const std::string& schedule, Installer& systemd) {
  const bool had_units = systemd.remove(schedule);
  if (!on_path("crontab").empty()) {
    try {
      Cron().remove(schedule);
    } catch (const Error&) {
      if (!had_units) { throw; }  // who may not use cron has no line in its table
    }
  } else if (!had_units) {
    throw Error("remove the timer of schedule " + schedule, ErrorCode::host_unable,
                "systemd has none, and crontab is not on PATH; put it there and remove the schedule again");
  }
}

namespace {

/// A word of a unit: quoted, without specifiers and, where systemd looks for them, without `variables`.
std::string unit_word(const std::string& text, bool variables) {
  std::string word = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') { word += '\\'; }
    if (c == '%' || (variables && c == '$')) { word += c; }
    word += c;
  }
  return word + '"';
}

/// A path that is the rest of a line.
std::string without_specifiers(const std::string& text) {
  std::string path;
  for (const char c : text) { path += c == '%' ? "%%" : std::string(1, c); }
  return path;
}

/// A word for sh in a crontab, where % would end the command.
std::string cron_word(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else if (c == '%') {
      word += "'\\%'";
    } else {
      word += c;
    }
  }
  return word + "'";
}

/// A crontab has no way to write a line's end, and systemd takes UTF-8 only.
void require_writable(const Environment& environment) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  for (const auto& [name, value] : environment) {
    if (std::ranges::none_of(value, is_control) && find_invalid_utf8(value) == std::string::npos) {
      continue;
    }
    throw Error("add a schedule", ErrorCode::usage,
                fmt::format("{} is {}: systemd and cron cannot store this value; choose another folder", name,
                            excerpt(value)));
  }
}

std::string mark_of(const std::string& name) {
  return "# virtrain schedule " + name;
}

std::string capitalized_days(const std::string& days) {
  std::string text = days;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 0 || text[i - 1] == ',') {
      text[i] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[i])));
    }
  }
  return text.empty() ? "" : text + " ";
}

}  // namespace

std::string unit_name(const std::string& schedule) {
  return "virtrain-" + schedule;
}

std::string service_unit(const Schedule& schedule, const std::filesystem::path& program, bool system,
                         const Environment& environment) {
  require_writable(environment);
  std::string variables;
  for (const auto& [name, value] : environment) {
    variables += fmt::format("Environment={}\n", unit_word(fmt::format("{}={}", name, value), false));
  }
  // A run makes VMs, cgroups and namespaces and binds devices, so only what these never touch is closed. A
  // user's manager can close nothing: it takes a user namespace, in which devices are lost, or new privileges
  // away, without which sendmail and sudo do nothing. By ProtectClock= before systemd 253 devices are lost,
  // too: it implies a DeviceAllow=, which closes /dev/kvm and GPUs.
  const std::string sandbox = system ? "ProtectHome=no\nPrivateTmp=no\nLockPersonality=yes\n"
                                       "RestrictRealtime=yes\nRestrictSUIDSGID=yes\nProtectHostname=no\n"
                                     : "";
  return fmt::format(
      "[Unit]\n"
      "Description=virtrain schedule {0}\n"
      "{1}\n"
      "[Service]\n"
      "Type=oneshot\n"
      "{5}ExecStart={2} schedule run {0}\n"
      "# 75: cores or devices were busy, which is not a failure.\n"
      "SuccessExitStatus=75\n"
      "# The run tears down its machines before it goes.\n"
      "TimeoutStopSec=5min\n"
      "KillSignal=SIGTERM\n"
      "# What the run tears down with, libvirt's daemon, must not be ended together with it.\n"
      "KillMode=mixed\n"
      "Delegate=yes\n"
      "{3}{4}",
      schedule.name, system ? "Wants=network.target\nAfter=libvirtd.service network.target\n" : "",
      unit_word(program.string(), true), sandbox,
      schedule.webhook_file.empty()
          ? ""
          : "LoadCredential=webhook:" + without_specifiers(schedule.webhook_file) + "\n",
      variables);
}

std::string timer_unit(const Schedule& schedule) {
  return fmt::format(
      "[Unit]\n"
      "Description=virtrain schedule {}\n"
      "\n"
      "[Timer]\n"
      "OnCalendar={}*-*-* {}:00\n"
      "Persistent=true\n"
      "RandomizedDelaySec=5min\n"
      "\n"
      "[Install]\n"
      "WantedBy=timers.target\n",
      schedule.name, capitalized_days(schedule.days), schedule.at);
}

std::string crontab_with(const std::string& crontab, const Schedule& schedule,
                         const std::filesystem::path& program, const Environment& environment) {
  require_writable(environment);
  std::string variables;
  for (const auto& [name, value] : environment) {
    variables += fmt::format("{}={} ", name, cron_word(value));
  }
  auto text = crontab_without(crontab, schedule.name);
  if (!text.empty() && text.back() != '\n') { text += '\n'; }
  // cron mails whatever is printed.
  return text + fmt::format("{} {} * * {} {}{} schedule run {} --quiet {}\n",
                            std::stoi(schedule.at.substr(3)), std::stoi(schedule.at.substr(0, 2)),
                            schedule.days.empty() ? "*" : schedule.days, variables,
                            cron_word(program.string()), schedule.name, mark_of(schedule.name));
}

std::string crontab_without(const std::string& crontab, const std::string& name) {
  const auto mark = " " + mark_of(name);
  std::string kept;
  for (std::size_t begin = 0; begin < crontab.size();) {
    const auto end = std::min(crontab.find('\n', begin), crontab.size() - 1) + 1;
    const auto line = crontab.substr(begin, end - begin);
    const bool ours = trim(line).ends_with(mark) && trim(line).front() != '#';
    if (!ours) { kept += line; }
    begin = end;
  }
  return kept;
}

}  // namespace virtrain::harness
