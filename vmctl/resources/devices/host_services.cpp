#include "vmctl/resources/devices/host_services.h"

#include <algorithm>
#include <filesystem>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
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

}  // namespace

std::vector<std::string> services_that_grab_gpus() {
  std::vector<std::string> active;
  if (!has_systemd()) { return active; }
  for (const auto* unit : gpu_services) {
    if (is_active(unit)) { active.emplace_back(unit); }
  }
  return active;
}

bool is_service_that_grabs_gpus(const std::filesystem::path& root, int pid) {
  if (pid == 0) { return false; }
  const auto groups = read_file(root / "proc" / std::to_string(pid) / "cgroup").value_or("");
  return std::any_of(std::begin(gpu_services), std::end(gpu_services),
                     [&](const char* unit) { return groups.find(unit) != std::string::npos; });
}

const Handler service_handler{.kind = EffectKind::service, .make = stop, .left = left, .undo = start};

}  // namespace virtrain::vmctl
