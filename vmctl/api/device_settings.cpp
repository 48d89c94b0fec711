#include "vmctl/api/device_settings.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

constexpr double same_watts = 0.5;  // nvidia-smi rounds

/// "Enabled", "Disabled"; "[N/A]" and the like say that there is no such setting.
std::optional<bool> switch_in(std::string_view word) {
  if (word == "Enabled") { return true; }
  if (word == "Disabled") { return false; }
  return std::nullopt;
}

std::optional<double> number_in(std::string_view word) {
  const std::string text(word);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

const char* on_or_off(bool value) {
  return value ? "on" : "off";
}

}  // namespace

std::vector<std::string> settings_query(const std::string& gpu) {
  return {"nvidia-smi", "-i", gpu,
          "--query-gpu=ecc.mode.current,persistence_mode,mig.mode.current,power.limit",
          "--format=csv,noheader,nounits"};
}

DeviceSettings parse_settings_answer(const std::string& line) {
  const auto cells = split(std::string(trim(line)), ',');
  if (cells.size() != 4) {
    throw Error("read a GPU's settings", ErrorCode::protocol, "nvidia-smi answered: " + printable(line));
  }
  return {.power_limit_watts = number_in(trim(cells[3])),
          .ecc = switch_in(trim(cells[0])),
          .persistence = switch_in(trim(cells[1])),
          .mig = switch_in(trim(cells[2]))};
}

std::vector<std::vector<std::string>> settings_commands(const std::string& gpu, const DeviceSettings& now,
                                                        const DeviceSettings& wanted) {
  std::vector<std::vector<std::string>> commands;
  const auto set = [&](const char* flag, const std::string& value) {
    commands.push_back({"nvidia-smi", "-i", gpu, flag, value});
  };
  const auto differs = [](const auto& a, const auto& b) { return a && (!b || *a != *b); };
  const bool persistence = differs(wanted.persistence, now.persistence);
  if (persistence && *wanted.persistence) { set("-pm", "1"); }
  if (differs(wanted.mig, now.mig)) { set("-mig", *wanted.mig ? "1" : "0"); }
  if (differs(wanted.ecc, now.ecc)) { set("-e", *wanted.ecc ? "1" : "0"); }
  if (differs(wanted.power_limit_watts, now.power_limit_watts)) {
    set("-pl", fmt::format("{:g}", *wanted.power_limit_watts));
  }
  const auto lock_clock = [&](const char* lock, const char* reset, const auto& asked, const auto& is) {
    if (asked) { set(lock, fmt::format("{0},{0}", *asked)); }
    if (!asked && is) { commands.push_back({"nvidia-smi", "-i", gpu, reset}); }
  };
  lock_clock("-lgc", "-rgc", wanted.graphics_clock_mhz, now.graphics_clock_mhz);
  lock_clock("-lmc", "-rmc", wanted.memory_clock_mhz, now.memory_clock_mhz);
  if (persistence && !*wanted.persistence) { set("-pm", "0"); }
  return commands;
}

std::vector<std::string> settings_differences(const DeviceSettings& wanted, const DeviceSettings& now) {
  std::vector<std::string> found;
  const auto check_switch = [&](const char* name, std::optional<bool> asked, std::optional<bool> is) {
    if (asked && asked != is) {
      found.push_back(fmt::format("{} is {} where {} was asked for", name,
                                  is ? on_or_off(*is) : "not offered", on_or_off(*asked)));
    }
  };
  check_switch("ECC", wanted.ecc, now.ecc);
  check_switch("persistence", wanted.persistence, now.persistence);
  check_switch("MIG mode", wanted.mig, now.mig);
  if (wanted.power_limit_watts &&
      (!now.power_limit_watts || std::abs(*wanted.power_limit_watts - *now.power_limit_watts) > same_watts)) {
    found.push_back(
        fmt::format("power limit is {} where {:g} W was asked for",
                    now.power_limit_watts ? fmt::format("{:g} W", *now.power_limit_watts) : "not offered",
                    *wanted.power_limit_watts));
  }
  return found;
}

}  // namespace virtrain::vmctl
