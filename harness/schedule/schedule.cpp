#include "harness/schedule/schedule.h"

#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/experiment/experiment.h"

namespace virtrain::harness {
namespace {

constexpr std::array<const char*, 7> day_names = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};
constexpr unsigned own_folder_mode = 0700;

Error refuse(const std::string& what, const std::string& text, const std::string& allowed) {
  return Error("read the schedule", ErrorCode::usage,
               fmt::format("{} is not a valid {} (allowed: {})", excerpt(text), what, allowed));
}

std::size_t day_of(const std::string& text, const std::string& word) {
  static const std::set<std::string> whole = {"sunday",   "monday", "tuesday", "wednesday",
                                              "thursday", "friday", "saturday"};
  const auto given = lower(word);
  const auto name = whole.contains(given) ? given.substr(0, 3) : given;
  const auto found = std::ranges::find(day_names, name);
  if (found == day_names.end()) {
    throw refuse("list of days", text, "mon,tue,… or a range such as mon-fri");
  }
  return static_cast<std::size_t>(found - day_names.begin());
}

/// Files of earlier versions have no such key.
bool is_younger(std::string_view key) {
  return key == "had_database" || key == "webhook_file" || key == "mail" || key == "keep_days" ||
         key == "label_command" || key == "textfile" || key == "site" || key == "no_timer";
}

template <typename Record>
std::string to_json_text(const Record& record) {
  nlohmann::json json;
  using Members = boost::describe::describe_members<Record, boost::describe::mod_public>;
  boost::mp11::mp_for_each<Members>([&](auto member) { json[member.name] = record.*member.pointer; });
  return dump_json(json, 2) + "\n";
}

template <typename Record>
Record from_json_file(const std::filesystem::path& file) {
  using Members = boost::describe::describe_members<Record, boost::describe::mod_public>;
  const auto refuse_file = [&](const std::string& why) {
    // The message names the file itself: main() shows nothing else of a file that is refused.
    return Error("read a schedule", ErrorCode::bad_input, excerpt(file.string()) + ": " + why);
  };
  try {
    const auto json = parse_json(read_file(file).value_or(""), "read", ErrorCode::bad_input);
    Record record;
    boost::mp11::mp_for_each<Members>([&](auto member) {
      if (is_younger(member.name) && !json.contains(member.name)) { return; }
      json.at(member.name).get_to(record.*member.pointer);
    });
    return record;
  } catch (const Error& error) {
    throw refuse_file(error.message());
  } catch (const nlohmann::json::exception&) { throw refuse_file("a key is missing or has another type"); }
}

}  // namespace

std::string time_of_day(const std::string& text) {
  const auto colon = text.find(':');
  const auto number = [&](const std::string& digits) {
    const bool plain = !digits.empty() && digits.size() <= 2 &&
                       std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
    return plain ? std::stoi(digits) : 99;
  };
  const int hour = number(text.substr(0, colon));
  const int minute =
      colon == std::string::npos || text.size() != colon + 3 ? 99 : number(text.substr(colon + 1));
  if (hour > 23 || minute > 59) { throw refuse("time of day", text, "00:00 … 23:59, local time"); }
  return fmt::format("{:02}:{:02}", hour, minute);
}

std::string days_of_week(const std::string& text) {
  if (text.empty()) { return ""; }
  std::array<bool, 7> chosen{};
  for (const auto& part : split(text, ',')) {
    const auto dash = part.find('-');
    std::size_t day = day_of(text, part.substr(0, dash));
    const std::size_t last = dash == std::string::npos ? day : day_of(text, part.substr(dash + 1));
    for (; day != last; day = (day + 1) % 7) { chosen.at(day) = true; }
    chosen.at(last) = true;
  }
  std::vector<std::string> names;
  for (std::size_t i = 1; i <= 7; ++i) {
    if (chosen.at(i % 7)) { names.emplace_back(day_names.at(i % 7)); }
  }
  return names.size() == 7 ? "" : join(names, ",");
}

namespace {

bool is_schedule_name(const std::string& name) {
  constexpr std::size_t longest = 64;
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= longest && std::ranges::all_of(name, is_plain) && name[0] != '.' &&
         name[0] != '-' && name[0] != '_';
}

}  // namespace

void require_schedule_name(const std::string& name) {
  if (!is_schedule_name(name)) {
    throw refuse("name of a schedule", name, "a-z, 0-9, then also . _ -, at most 64 characters");
  }
}

std::int64_t days_to_keep(const std::string& text) {
  constexpr std::int64_t fewest = 7, most = 36500;
  const auto days = text.ends_with('d') ? parse_integer(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!days || *days < fewest || *days > most) { throw refuse("--keep", text, "7d … 36500d, such as 400d"); }
  return *days;
}

std::string label_in(const std::string& output) {
  std::string label(trim(std::string_view(output).substr(0, output.find('\n'))));
  const auto refuse_label = [](const std::string& why) {
    return Error("read the label", ErrorCode::bad_input, why);
  };
  if (label.empty()) { throw refuse_label("the first line of its output is empty"); }
  if (const auto fault = label_fault(label); !fault.empty()) { throw refuse_label(fault); }
  const auto is_control = [](unsigned char c) { return c < ' ' || c == 127; };
  if (std::ranges::any_of(label, is_control)) {
    throw refuse_label("there are control characters in its output");
  }
  return label;
}

std::optional<Gap> gap_at(const std::string& cutoff, const std::vector<std::string>& starts) {
  constexpr std::int64_t longest_seconds = 60L * 24 * 3600;
  for (std::size_t next = starts.size(); next-- > 1;) {
    const auto& last_old = starts[next - 1];
    if (last_old >= cutoff) { continue; }
    const auto began = seconds_of_iso8601(last_old), next_began = seconds_of_iso8601(starts[next]);
    if (!began || !next_began || *next_began - *began <= longest_seconds) { return std::nullopt; }
    return Gap{last_old, starts[next], next + 2 >= starts.size()};
  }
  return std::nullopt;
}

std::time_t next_run(const Schedule& schedule, std::time_t now) {
  const int hour = std::stoi(schedule.at.substr(0, 2));
  const int minute = std::stoi(schedule.at.substr(3));
  for (int ahead = 0; ahead <= 8; ++ahead) {
    std::tm local{};
    ::localtime_r(&now, &local);
    local.tm_mday += ahead;
    local.tm_hour = hour;
    local.tm_min = minute;
    local.tm_sec = 0;
    local.tm_isdst = -1;
    const std::time_t start = std::mktime(&local);
    const auto* day = day_names.at(static_cast<std::size_t>(local.tm_wday));
    if (start > now && (schedule.days.empty() || schedule.days.find(day) != std::string::npos)) {
      return start;
    }
  }
  return now;
}

std::string words_of_status(std::int64_t exit_status) {
  switch (exit_status) {
    case 0:
      return "done";
    case 1:
      return "regression";
    case 3:
      return "bad file";
    case 4:
      return "could not run";
    case 5:
      return "no verdict";
    case 6:
      return "a trial failed";
    case 75:
      return "not tonight: busy";
    case 129:
    case 130:
    case 143:
      return "stopped";
    default:
      return fmt::format("exit {}", exit_status);
  }
}

ScheduleBook::ScheduleBook()
    : folder_(user_folder("XDG_CONFIG_HOME", ".config") / "virtrain/schedules"),
      state_(user_folder("XDG_STATE_HOME", ".local/state") / "virtrain/schedules") {}

std::vector<std::string> ScheduleBook::names() const {
  std::vector<std::string> names;
  for (const auto& file : entries_of(folder_)) {
    if (file.extension() == ".json" && is_schedule_name(file.stem())) { names.push_back(file.stem()); }
  }
  return names;
}

bool ScheduleBook::contains(const std::string& name) const {
  return std::filesystem::exists(folder_ / (name + ".json"));
}

void ScheduleBook::require(const std::string& name) const {
  require_schedule_name(name);
  if (contains(name)) { return; }
  const auto all = names();
  throw Error(
      "find schedule " + name, ErrorCode::not_found,
      all.empty() ? "there is none; virtrain schedule add makes one" : "there are: " + join(all, ", "));
}

Schedule ScheduleBook::find(const std::string& name) const {
  require(name);
  try {
    auto schedule = from_json_file<Schedule>(folder_ / (name + ".json"));
    schedule.name = name;
    schedule.at = time_of_day(schedule.at);
    return schedule;
  } catch (const Error& error) {
    throw Error(error.operation(), error.code(),
                fmt::format("{}; virtrain schedule remove {}, then add it again", error.message(), name));
  }
}

void ScheduleBook::save(const Schedule& schedule) const {
  std::filesystem::create_directories(folder_.parent_path());
  make_own_folder(folder_, own_folder_mode);
  write_file_atomically(folder_ / (schedule.name + ".json"), to_json_text(schedule));
}

void ScheduleBook::remove(const std::string& name) const {
  std::filesystem::remove(folder_ / (name + ".json"));
  std::filesystem::remove(state_ / (name + ".json"));
  std::filesystem::remove(lock_file(name));
}

std::optional<LastRun> ScheduleBook::last_run(const std::string& name) const {
  const auto file = state_ / (name + ".json");
  if (!std::filesystem::exists(file)) { return std::nullopt; }
  try {
    return from_json_file<LastRun>(file);
  } catch (const Error& error) {
    log::warning("how the schedule's last run ended is not known",
                 {{"schedule", name}, {"reason", error.message()}});
    return std::nullopt;
  }
}

void ScheduleBook::save_last_run(const std::string& name, const LastRun& run) const {
  make_state_folder();
  write_file_atomically(state_ / (name + ".json"), to_json_text(run));
}

std::set<std::string> ScheduleBook::told(const std::string& name) const {
  std::set<std::string> keys;
  for (auto& line : split(read_file(state_ / (name + ".told")).value_or(""), '\n')) {
    if (!line.empty()) { keys.insert(std::move(line)); }
  }
  return keys;
}

void ScheduleBook::save_told(const std::string& name, const std::set<std::string>& keys) const {
  write_file_atomically(state_ / (name + ".told"), join({keys.begin(), keys.end()}, "\n") + "\n");
}

std::filesystem::path ScheduleBook::lock_file(const std::string& name) const {
  return state_ / (name + ".lock");
}

UniqueFd ScheduleBook::lock_crontab() const {
  make_state_folder();
  UniqueFd folder(::open(state_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) { throw errno_error("open " + state_.string(), errno); }
  // Whoever has it runs `crontab` a few times, each with a deadline.
  while (::flock(folder.get(), LOCK_EX) != 0) {
    if (errno != EINTR) { throw errno_error("lock " + state_.string(), errno); }
  }
  return folder;
}

void ScheduleBook::make_state_folder() const {
  std::filesystem::create_directories(state_.parent_path());
  make_own_folder(state_, own_folder_mode);
}

}  // namespace virtrain::harness
