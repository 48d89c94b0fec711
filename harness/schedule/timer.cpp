#include "harness/schedule/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::harness {
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
