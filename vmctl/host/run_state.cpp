#include "vmctl/host/run_state.h"

#include "common/error.h"
#include "common/system/log.h"
#include "vmctl/guest/cloud/image_copy.h"
#include "vmctl/guest/mirror/guest_driver.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"
#include "vmctl/process/calling_user.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {
namespace {

/// Its folder is in the journal: of a run that is killed it stays.
std::unique_ptr<PrivateLibvirt> start_private_libvirt(const RunState& run, const Cancelled& cancelled) {
  const auto folder = PrivateLibvirt::new_folder_name();
  const auto id = run.journal.intent(run.owner, EffectKind::file, folder.string());
  const auto folder_gone = [&journal = run.journal, id] {
    try {
      journal.undone(id);
    } catch (const Error& error) { log::warning(error.what()); }
  };
  auto started = std::make_unique<PrivateLibvirt>(folder, folder_gone, cancelled);
  run.journal.done(id);
  return started;
}

}  // namespace

std::string guest_program(const std::filesystem::path& program) {
  return "/usr/bin/" + program.filename().string();
}

void look_at_image(const std::string& image) {
  const AsUser coordinator(coordinator_user());
  if (image == mirror_image) { return; }
  inspect_cloud_image(image, works_for_another() ? ImageReader::us : ImageReader::qemu);
}

void choose_image(VmHost& host, const std::string& image, const Cancelled& cancelled) {
  host.cloud_image.reset();
  if (image == mirror_image) { return; }
  if (!works_for_another()) {
    host.cloud_image = inspect_cloud_image(image);
    return;
  }
  auto copy = copy_image(image, cache_dir(), cancelled);
  host.cloud_image = inspect_cloud_image(copy.file, ImageReader::us);  // QEMU's user owns it
  host.cloud_image->hold = std::move(copy.hold);
}

MirrorSpec mirror_of(const Programs& programs, const ImageSpec& spec) {
  MirrorSpec mirror;
  for (const auto& program : {programs.agent, programs.rsh}) {
    mirror.files.push_back({program, guest_program(program)});
  }
  for (const auto& [name, program] : programs.others) {
    mirror.files.push_back({program, guest_program(program)});
  }
  mirror.cache_dir = cache_dir();
  mirror.texts = spec.texts;
  mirror.extra_packages = spec.packages;
  if (spec.with_nvidia_driver) {
    if (const auto driver = find_guest_driver("/", find_guest_kernel().version)) {
      carry_driver(mirror, *driver);
    }
  }
  return mirror;
}

VmHost prepare_vm_host(const RunState& run, const ImageSpec& spec, const Cancelled& cancelled) {
  VmHost host;
  if (run.spec.mode == HostMode::system) {
    host.daemon = std::make_unique<LibvirtDaemon>(system_libvirt, run.spec.may_change_host, cancelled);
  } else {
    host.private_daemon = start_private_libvirt(run, cancelled);
  }
  host.hypervisor = connect_libvirt(host.private_daemon ? host.private_daemon->uri() : system_libvirt);
  auto mirror = mirror_of(run.programs, spec);
  mirror.cancelled = cancelled;
  host.image = build_mirror_image(mirror, [](std::string_view line) { log::info(line); });
  choose_image(host, spec.image, cancelled);
  end_if(cancelled, "prepare this host");
  const auto verdict = probe_kvm(host.image.kernel, mirror.cache_dir);
  host.virtualization = verdict.virtualization;
  host.virtualization_reason = verdict.reason;
  host.cpu_traits = cpu_traits(load_machine(), host.hypervisor->versions().hypervisor);
  return host;
}

}  // namespace virtrain::vmctl
