#include "vmctl/resources/device_lender.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/text.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/cleanup.h"
#include "vmctl/resources/devices/clearing.h"
#include "vmctl/resources/devices/device_settings.h"
#include "vmctl/resources/devices/host_services.h"
#include "vmctl/resources/devices/vgpu_scheduler.h"
#include "vmctl/resources/devices/virtual_functions.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

/// Effects of a device's lease, in order, given what is now; effects that other runs share come last.
std::vector<Effect> effects_of(const DeviceGrant& grant) {
  std::vector<Effect> effects;
  const auto all = handlers();
  for (auto handler = all.rbegin(); handler != all.rend(); ++handler) {
    if ((*handler)->plan == nullptr) { continue; }
    for (auto& effect : (*handler)->plan(grant)) { effects.push_back(std::move(effect)); }
  }
  return effects;
}

void reset_where_wanted(const std::vector<DeviceGrant>& grants) {
  for (const auto& grant : grants) {
    if (grant.between_tenants == BetweenTenants::reset) { reset_function(grant.address); }
  }
}

}  // namespace

void DeviceLender::perform(Effect effect, std::vector<Effect>* into) {
  effect.owner = owner_;
  effect.id = journal_.intent(owner_, effect.kind, effect.name, effect.state);
  if (into != nullptr) { into->push_back(effect); }
  handler_of(effect.kind).make(effect);
  journal_.done(effect.id);
}

void DeviceLender::lend_one(const DeviceGrant& grant) {
  for (const auto& planned : effects_of(grant)) {
    // The functions of one group may be granted one by one.
    const auto already = [&](const Effect& effect) {
      return effect.kind == planned.kind && effect.name == planned.name;
    };
    if (std::none_of(done_.begin(), done_.end(), already)) { perform(planned, &done_); }
  }
}

void DeviceLender::stop_services(const std::vector<DeviceGrant>& grants) {
  if (!have_services_to_stop(grants)) { return; }
  for (const auto* unit : gpu_services) { use(EffectKind::service, unit); }
  const auto planned = plan_stopped_services(grants);
  if (planned.empty()) { return; }
  if (!may_change_host_) {
    std::vector<std::string> units;
    for (const auto& effect : planned) { units.push_back(effect.name); }
    throw Error(
        "assign GPUs", ErrorCode::host_unable,
        fmt::format("{} would disturb them, and --no-host-changes forbids to stop it: systemctl stop {}",
                    join(units, ", "), join(units, " ")));
  }
  for (const auto& effect : planned) { perform(effect); }
}

void DeviceLender::keep_services_away(const std::vector<DeviceGrant>& grants) {
  const std::scoped_lock lock(mutex_);
  stop_services(grants);
}

std::size_t DeviceLender::lend(const std::vector<DeviceGrant>& grants, const CardSettings& cards,
                               const Cancelled& cancelled) {
  const std::scoped_lock lock(mutex_);
  remove_vgpus();
  if (must_make_way(granted_, grants)) { make_way(); }
  std::vector<DeviceGrant> missing;
  for (const auto& grant : grants) {
    if (!contains(granted_, grant) && !contains(missing, grant)) { missing.push_back(grant); }
  }
  if (missing.empty()) {
    reset_where_wanted(grants);
    return 0;
  }
  give_settings_back();
  set_cards(missing, cards);
  const auto before = done_.size();
  try {
    stop_services(missing);
    for (const auto& grant : missing) {
      if (grant.between_tenants == BetweenTenants::erase) { erase_disk(grant.address, cancelled); }
    }
    for (const auto& planned : plan_virtual_functions(missing)) { perform(planned, &done_); }
    for (const auto& grant : missing) { lend_one(grant); }
    reset_where_wanted(grants);
  } catch (...) {
    undo_down_to(before, done_);
    throw;
  }
  granted_.insert(granted_.end(), missing.begin(), missing.end());
  return missing.size();
}

void DeviceLender::remove_vgpus() {
  std::erase_if(granted_, is_made_for_each_vm);
  const auto first = std::stable_partition(
      done_.begin(), done_.end(), [](const Effect& effect) { return !handler_of(effect.kind).for_each_vm; });
  std::vector<Effect> vgpus(first, done_.end());
  done_.erase(first, done_.end());
  const auto failures = undo_down_to(0, vgpus);
  if (!failures.empty()) {
    throw Error("remove the vGPUs of the VM before", ErrorCode::host_unable, join(failures, "; "));
  }
}

void DeviceLender::make_way() {
  granted_.clear();
  const auto failures = undo_down_to(0, done_);
  if (!failures.empty()) {
    throw Error("give devices back for others of their cards", ErrorCode::host_unable, join(failures, "; "));
  }
}

/// While they carry no vGPU: a scheduler changes only then.
void DeviceLender::set_cards(const std::vector<DeviceGrant>& grants, const CardSettings& wanted) {
  std::set<std::string> cards;
  for (const auto& grant : grants) {
    if (is_made_for_each_vm(grant)) { cards.insert(card_of(grant)); }
  }
  for (const auto& card : cards) {
    if (!wanted.gpu.empty()) { perform(settings_effect(card, wanted.gpu), &settings_); }
    if (wanted.vgpu_scheduler) { perform(vgpu_scheduler_effect(card, *wanted.vgpu_scheduler), &settings_); }
  }
}

void DeviceLender::give_settings_back() {
  const auto failures = undo_down_to(0, settings_);
  if (!failures.empty()) {
    throw Error("set the GPUs as they were", ErrorCode::host_unable, join(failures, "; "));
  }
}

void DeviceLender::set(const std::vector<DeviceGrant>& grants, const DeviceSettings& wanted) {
  const std::scoped_lock lock(mutex_);
  for (const auto& grant : grants) {
    if (bound_driver(grant.address) == "nvidia") {
      perform(settings_effect(grant.address, wanted), &settings_);
    }
  }
}

std::vector<std::string> DeviceLender::undo_down_to(std::size_t count, std::vector<Effect>& effects) {
  std::vector<std::string> failures;
  for (; effects.size() > count; effects.pop_back()) {
    try {
      undo_and_forget(journal_, effects.back());
    } catch (const std::exception& failure) { failures.emplace_back(failure.what()); }
  }
  return failures;
}

std::vector<std::string> DeviceLender::give_back() {
  const std::scoped_lock lock(mutex_);
  granted_.clear();
  auto failures = undo_down_to(0, done_);
  const auto settings = undo_down_to(0, settings_);
  failures.insert(failures.end(), settings.begin(), settings.end());
  return failures;
}

std::string DeviceLender::open_kvm_device(const std::string& device) {
  const std::scoped_lock lock(mutex_);
  if (::geteuid() != 0) { return {}; }
  use(EffectKind::kvm_device, device);
  const auto planned = kvm_device_effect(device);
  if (!planned) { return {}; }
  if (!may_change_host_) {
    return fmt::format(
        "{} is closed to QEMU's user, and --no-host-changes forbids to open it (chgrp kvm {}; chmod 0660 {})",
        device, device, device);
  }
  perform(*planned);
  return fmt::format(
      "{} is open to group kvm (mode 0660) until this run ends: libvirt and QEMU's user need it", device);
}

void DeviceLender::use(EffectKind kind, const std::string& name) {
  const bool already =
      std::ranges::any_of(uses_, [&](const Use& use) { return use.kind == kind && use.name == name; });
  if (!already) { uses_.push_back({kind, name, use_shared(name)}); }
}

std::vector<std::string> DeviceLender::stop_using_all() {
  auto uses = std::exchange(uses_, {});
  if (uses.empty()) { return {}; }
  const auto was_used = [&](const Effect& effect) {
    return std::ranges::any_of(
        uses, [&](const Use& use) { return use.kind == effect.kind && use.name == effect.name; });
  };
  for (auto& use : uses) { use.lock.reset(); }
  std::vector<Effect> effects;
  try {
    effects = journal_.effects();
  } catch (const Error& error) { return {fmt::format("what runs share stays as it is: {}", error.what())}; }
  std::vector<std::string> failures;
  for (const auto& effect : effects) {
    const bool is_of_this_host = effect.owner.boot_id == owner_.boot_id;  // the journal may be others', too
    if (!was_used(effect) || !is_of_this_host) { continue; }
    try {
      undo_and_forget(journal_, effect);
    } catch (const std::exception& failure) {
      const auto* error = dynamic_cast<const Error*>(&failure);
      const bool another_run_will = error != nullptr && error->code() == ErrorCode::busy;
      if (!another_run_will) { failures.emplace_back(failure.what()); }
    }
  }
  return failures;
}

std::vector<std::string> DeviceLender::end() {
  auto failures = give_back();
  const std::scoped_lock lock(mutex_);
  const auto more = stop_using_all();
  failures.insert(failures.end(), more.begin(), more.end());
  return failures;
}

std::size_t DeviceLender::lent() const {
  const std::scoped_lock lock(mutex_);
  return granted_.size();
}

}  // namespace virtrain::vmctl
