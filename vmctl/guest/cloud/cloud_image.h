#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "common/files/unique_fd.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

/// A disk image of somebody else's, with cloud-init in it, that VMs may start from.
struct CloudImage {
  std::filesystem::path file;
  std::string format;               ///< "qcow2" or "raw"
  std::string hash;                 ///< of its content, as far as a look at its size and times can tell
  std::uint64_t virtual_bytes = 0;  ///< of the disk that a guest sees
  std::shared_ptr<const UniqueFd> hold = {};  ///< of a copy, see ImageCopy
};

/// Who must be able to read an image: QEMU's user by its mode and its folders, or only who looks at it.
enum class ImageReader { qemu, us };

/// Throws Error(host_unable) for what is no disk image, takes bytes of other files, is encrypted, or that the
/// reader cannot read.
CloudImage inspect_cloud_image(const std::filesystem::path& file, ImageReader reader = ImageReader::qemu);

/// A copy of the image that takes one VM's writes; a few hundred KiB at first.
void make_overlay(const CloudImage& image, const std::filesystem::path& overlay);

/// Instructions for cloud-init (data source NoCloud) in one VM: it mounts virtrain's root beside its own and
/// starts the agent there. The image keeps its kernel, init and GPU driver.
struct CloudSeed {
  GuestBoot boot;
  std::string mac;  ///< of the NIC that gets boot.address; empty: none
};

std::string cloud_meta_data(const CloudSeed& seed, const std::string& instance_id);
std::string cloud_user_data(const CloudSeed& seed);
/// cloud-init leaves the network to the start script, which knows no distribution's way.
std::string cloud_network_config();

/// All three as an ISO 9660 image that cloud-init finds by its label.
void write_seed(const CloudSeed& seed, const std::string& instance_id, const std::filesystem::path& file);

}  // namespace virtrain::vmctl
