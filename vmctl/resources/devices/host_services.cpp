#include "vmctl/resources/devices/host_services.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/devices/device_settings.h"
#include "vmctl/resources/kind/handler.h"

namespace virtrain::vmctl {
namespace {

bool is_active(const std::string& unit) {
  return run_command({"systemctl", "is-active", "--quiet", unit}).exit_status == 0;
}

bool has_systemd() {
  std::error_code ignored;
  return std::filesystem::exists("/run/systemd/system", ignored);  // sd_booted(3)
}

void stop(const Effect& effect) {
  run_checked({"systemctl", "stop", effect.name});
}

std::string left(const Effect& effect) {
  return has_systemd() && !is_active(effect.name) ? "stopped service" : "";
}

void start(const Effect& effect) {
  if (!left(effect).empty()) { run_checked({"systemctl", "start", effect.name}); }
  restore_power_limits(effect.state);
}

/// The GPUs that the host's driver has, those themselves whose virtual functions are granted.
std::set<std::string> cards_of(const std::vector<DeviceGrant>& grants) {
  std::set<std::string> cards;
  for (const auto& grant : grants) {
    if (bound_driver(grant.address) == "nvidia") { cards.insert(card_of(grant)); }
  }
  return cards;
}

}  // namespace

bool have_services_to_stop(const std::vector<DeviceGrant>& grants) {
  return has_systemd() && !cards_of(grants).empty();
}

std::vector<Effect> plan_stopped_services(const std::vector<DeviceGrant>& grants) {
  std::vector<Effect> effects;
  const auto cards = cards_of(grants);
  for (const auto* unit : gpu_services) {
    if (is_active(unit)) { effects.push_back({.kind = EffectKind::service, .name = unit}); }
  }
  const auto limits = effects.empty() ? "" : power_limits(cards);
  for (auto& effect : effects) { effect.state = limits; }
  return effects;
}

bool is_service_that_grabs_gpus(const std::filesystem::path& root, int pid) {
  if (pid == 0) { return false; }
  const auto groups = read_file(root / "proc" / std::to_string(pid) / "cgroup").value_or("");
  return std::any_of(std::begin(gpu_services), std::end(gpu_services),
                     [&](const char* unit) { return groups.find(unit) != std::string::npos; });
}

const Handler service_handler{
    .kind = EffectKind::service, .make = stop, .left = left, .undo = start, .is_shared = true};

}  // namespace virtrain::vmctl
