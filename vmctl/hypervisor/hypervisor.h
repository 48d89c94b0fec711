#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/files/unique_fd.h"
#include "vmctl/api/node.h"
#include "vmctl/hypervisor/domain/domain_xml.h"
#include "vmctl/hypervisor/node_device_xml.h"

namespace virtrain::vmctl {

struct HypervisorVersions {
  std::string libvirt;     ///< of the daemon, "9.0.0"
  std::string hypervisor;  ///< "QEMU 7.2.22"
};

struct DomainInfo {
  std::string name;
  std::string uuid;
  std::optional<LeaseMark> mark;  ///< nothing: not ours
};

struct NetworkInfo {
  std::string name;
  std::string bridge;
  std::optional<LeaseMark> mark;
};

/// Virtual machines of one host. Calls block, may come from any thread, and end by their deadline:
/// Error(timeout). When the daemon is gone they throw Error(io); the next call tries to connect again.
class Hypervisor {
 public:
  virtual ~Hypervisor() = default;

  virtual HypervisorVersions versions() = 0;

  /// Creates a transient network.
  virtual void create_network(const NetworkSpec& spec) = 0;
  /// No error if it does not exist.
  virtual void destroy_network(const std::string& name) = 0;

  /// Starts a transient domain.
  virtual void create_domain(const DomainSpec& spec) = 0;
  /// Byte stream to the agent's port; may be opened right after create_domain. Either side's end closes the
  /// other: end of file here when the guest, QEMU or the daemon dies. A second open is Error(busy) while the
  /// first is active.
  virtual UniqueFd open_channel(const std::string& domain) = 0;
  /// Its whole XML, as `virsh dumpxml` prints it. Throws Error(not_found) where there is no such domain.
  virtual std::string domain_description(const std::string& domain) = 0;
  /// SIGTERM to QEMU, then SIGKILL; returns when it is gone. No error if it does not exist.
  virtual void destroy_domain(const std::string& domain) = 0;
  virtual DomainStats domain_stats(const std::string& domain) = 0;

  /// All domains and networks of the host, foreign ones too.
  virtual std::vector<DomainInfo> domains() = 0;
  virtual std::vector<NetworkInfo> networks() = 0;
  /// PCI functions of the host.
  virtual std::vector<NodeDevice> pci_devices() = 0;
};

}  // namespace virtrain::vmctl
