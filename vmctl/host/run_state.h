#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "common/error.h"
#include "vmctl/api/host.h"
#include "vmctl/guest/cloud/cloud_image.h"
#include "vmctl/guest/cloud/image_copy.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/hypervisor/hypervisor.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/private_libvirt.h"
#include "vmctl/journal/leases.h"
#include "vmctl/resources/device_lender.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {

/// Resources that all VMs need; the first VM makes them.
struct VmHost {
  std::unique_ptr<LibvirtDaemon> daemon;           ///< the host's, in mode `system`
  std::unique_ptr<PrivateLibvirt> private_daemon;  ///< this run's own, in the other modes
  std::unique_ptr<Hypervisor> hypervisor;
  GuestImage image;
  std::optional<CloudImage> cloud_image;  ///< what guests boot from, if not from `image`
  Virtualization virtualization = Virtualization::tcg;
  std::string virtualization_reason;
  CpuTraits cpu_traits = {};
};

/// Programs of this build that nodes have, by name, and those that set them up.
struct Programs {
  std::filesystem::path agent, rsh;
  std::map<std::string, std::filesystem::path> others;
};
/// Where a guest has a program.
std::string guest_program(const std::filesystem::path& program);

/// State that the nodes of one run share.
struct RunState {
  RunSpec spec;
  LeaseJournal& journal;
  Owner owner;
  std::filesystem::path log_dir;  ///< console and agent logs of this run
  Programs programs;
  std::optional<VmHost> vm_host = {};
  std::map<std::string, ImageCopy> payloads = {};  ///< by their SHA-256
  NodeId next_node = 1;
  std::mutex plugged_mutex = {};
  std::set<std::string> plugged = {};  ///< addresses of this run's nodes on a bridge that tenants share

  /// The experiment's last six characters, for device names of at most 15.
  std::string tag() const { return tag_of(spec.experiment); }
};

/// The mirror image with these programs.
MirrorSpec mirror_of(const Programs& programs, const ImageSpec& spec);
/// libvirt answers, the guest image exists, and a probe has shown whether KVM works.
VmHost prepare_vm_host(const RunState& run, const ImageSpec& spec, const Cancelled& cancelled);
/// Chooses the image of VMs that are made from now on; running ones keep theirs.
void choose_image(VmHost& host, const std::string& image, const Cancelled& cancelled);
/// Throws Error(host_unable) for an image that VMs cannot boot from, or that is not the calling user's to
/// read.
void look_at_image(const std::string& image);

}  // namespace virtrain::vmctl
