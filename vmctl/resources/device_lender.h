#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "vmctl/api/device.h"
#include "vmctl/journal/leases.h"
#include "vmctl/resources/devices/device_settings.h"
#include "vmctl/resources/devices/kvm_device.h"

namespace virtrain::vmctl {

/// Makes devices ready for VMs and gives them back to the host. Every change is journalled before it is tried
/// and undone in reverse order; a device that does not come back as it was goes into quarantine. Calls block
/// and may come from any thread.
class DeviceLender {
 public:
  /// Without `may_change_host` no service is stopped and /dev/kvm stays as it is.
  DeviceLender(LeaseJournal& journal, Owner owner, bool may_change_host = true)
      : journal_(journal), owner_(std::move(owner)), may_change_host_(may_change_host) {}

  /// Stops the services that open GPUs or disturb them, until end(), if the host's driver has any of these
  /// devices; lend() does it too. Throws Error where one does not stop.
  void keep_services_away(const std::vector<DeviceGrant>& grants);
  /// Lets QEMU's user open /dev/kvm until end(), if it could not; returns what to tell the user, empty:
  /// nothing.
  std::string open_kvm_device(const std::string& device = kvm_device);
  /// Makes those ready that are not yet, after all that is lent went back where it is in their way
  /// (must_make_way); vGPUs are removed and made again. Returns how many. Clears those that are to be
  /// cleared, also where they are lent already: no VM has any of them. The cards of vGPUs are set before any
  /// is made. Throws Error(busy) naming who uses a device, Error(host_unable) or Error(io) with what the
  /// kernel said, Error(interrupted) where erasing is `cancelled`; what this call lent is undone then.
  std::size_t lend(const std::vector<DeviceGrant>& grants, const CardSettings& cards = {},
                   const Cancelled& cancelled = {});
  /// Sets GPUs that the host's own driver has (bare metal) until the next give_back(). Throws Error.
  void set(const std::vector<DeviceGrant>& grants, const DeviceSettings& wanted);
  /// Gives every device back, last lent first. Never throws: what could not be given back is in quarantine,
  /// stays in the journal for `clean`, and is returned in words.
  std::vector<std::string> give_back();
  /// As give_back(), and lets the services run again that were kept away from the devices.
  std::vector<std::string> end();
  /// Functions that are bound away from the host, and vGPUs that exist.
  std::size_t lent() const;

 private:
  /// Journalled; and added to `into` where this lender is to undo it.
  void perform(Effect effect, std::vector<Effect>* into = nullptr);
  void remove_vgpus();
  void make_way();
  void lend_one(const DeviceGrant& grant);
  void set_cards(const std::vector<DeviceGrant>& grants, const CardSettings& wanted);
  void give_settings_back();
  void stop_services(const std::vector<DeviceGrant>& grants);
  void use(EffectKind kind, const std::string& name);
  std::vector<std::string> stop_using_all();
  std::vector<std::string> undo_down_to(std::size_t count, std::vector<Effect>& effects);

  LeaseJournal& journal_;
  Owner owner_;
  const bool may_change_host_;
  mutable std::mutex mutex_;
  std::vector<DeviceGrant> granted_;
  std::vector<Effect> done_;      ///< in the order they were done
  std::vector<Effect> settings_;  ///< of GPUs that the host has: undone before any of them is lent
  /// Effects that other runs may need too, until the end: services that stay away whichever arm has the
  /// devices, and /dev/kvm open while VMs of this run may need it.
  struct Use {
    EffectKind kind;
    std::string name;
    UniqueFd lock;
  };
  std::vector<Use> uses_;
};

}  // namespace virtrain::vmctl
