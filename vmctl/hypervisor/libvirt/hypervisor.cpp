#include "vmctl/hypervisor/libvirt/hypervisor.h"

#include <fmt/format.h>

#include <mutex>

#include "common/system/time.h"
#include "vmctl/hypervisor/libvirt/channel.h"
#include "vmctl/hypervisor/libvirt/handles.h"
#include "vmctl/hypervisor/qemu_threads.h"

namespace virtrain::vmctl {

namespace {

/// Text that libvirt allocated.
std::string take(char* text) {
  std::string copy = text ? text : "";
  std::free(text);
  return copy;
}

std::string dotted(unsigned long version) {
  return fmt::format("{}.{}.{}", version / 1000000, version / 1000 % 1000, version % 1000);
}

DomainHandle find_domain(const ConnectionHandle& connection, const std::string& name,
                         const std::string& operation) {
  DomainHandle domain(virDomainLookupByName(connection.get(), name.c_str()));
  if (!domain) { throw_libvirt_error(operation); }
  return domain;
}

/// One record of virDomainListGetStats as a lookup by name.
class StatsRecord {
 public:
  explicit StatsRecord(const virDomainStatsRecord& record) : record_(record) {}
  std::optional<std::uint64_t> number(const std::string& name) const {
    for (int i = 0; i < record_.nparams; ++i) {
      const auto& parameter = record_.params[i];
      if (name != parameter.field) { continue; }
      if (parameter.type == VIR_TYPED_PARAM_ULLONG) { return parameter.value.ul; }
      if (parameter.type == VIR_TYPED_PARAM_UINT) { return parameter.value.ui; }
    }
    return std::nullopt;
  }
  std::string text(const std::string& name) const {
    for (int i = 0; i < record_.nparams; ++i) {
      if (name == record_.params[i].field && record_.params[i].type == VIR_TYPED_PARAM_STRING) {
        return record_.params[i].value.s;
      }
    }
    return {};
  }

 private:
  const virDomainStatsRecord& record_;
};

std::uint64_t rss_of(virDomainPtr domain) {
  virDomainMemoryStatStruct entries[VIR_DOMAIN_MEMORY_STAT_NR];
  const int count = virDomainMemoryStats(domain, entries, VIR_DOMAIN_MEMORY_STAT_NR, 0);
  for (int i = 0; i < count; ++i) {
    if (entries[i].tag == VIR_DOMAIN_MEMORY_STAT_RSS) { return entries[i].val << 10; }
  }
  return 0;
}

std::vector<VcpuStats> vcpus_of(const StatsRecord& record) {
  std::vector<VcpuStats> vcpus;
  for (std::uint64_t i = 0; i < record.number("vcpu.maximum").value_or(0); ++i) {
    const auto prefix = fmt::format("vcpu.{}.", i);
    const auto time = record.number(prefix + "time");
    if (!time) { continue; }
    VcpuStats stats;
    stats.time_ns = *time;
    stats.wait_ns = record.number(prefix + "wait");
    vcpus.push_back(stats);
  }
  return vcpus;
}

DomainStats read_stats(virDomainPtr domain, const std::string& name, const std::string& operation) {
  virDomainPtr list[] = {domain, nullptr};
  virDomainStatsRecordPtr* raw = nullptr;
  constexpr unsigned wanted = VIR_DOMAIN_STATS_CPU_TOTAL | VIR_DOMAIN_STATS_VCPU | VIR_DOMAIN_STATS_INTERFACE;
  const int count = virDomainListGetStats(list, wanted, &raw, 0);
  if (count < 0) { throw_libvirt_error(operation); }
  const std::unique_ptr<virDomainStatsRecordPtr, decltype(&virDomainStatsRecordListFree)> records(
      raw, virDomainStatsRecordListFree);
  if (count == 0) { throw Error(operation, ErrorCode::not_found, "the domain is no longer running"); }

  const StatsRecord record(*raw[0]);
  DomainStats stats;
  stats.monotonic_ns = monotonic_ns();
  stats.vcpus = vcpus_of(record);
  if (stats.vcpus.empty()) {
    if (const auto pid = qemu_pid(name)) { stats.vcpus = read_vcpu_threads(*pid); }
  }
  stats.cpu_time_ns = record.number("cpu.time").value_or(0);
  std::uint64_t in_vcpus = 0;
  for (const auto& vcpu : stats.vcpus) { in_vcpus += vcpu.time_ns; }
  stats.helper_cpu_ns = stats.cpu_time_ns > in_vcpus ? stats.cpu_time_ns - in_vcpus : 0;
  stats.rss_bytes = rss_of(domain);
  for (std::uint64_t i = 0; i < record.number("net.count").value_or(0); ++i) {
    const auto prefix = fmt::format("net.{}.", i);
    stats.nics.push_back({record.text(prefix + "name"), record.number(prefix + "rx.bytes").value_or(0),
                          record.number(prefix + "tx.bytes").value_or(0)});
  }
  return stats;
}

class LibvirtHypervisor final : public Hypervisor {
 public:
  LibvirtHypervisor(std::string uri, const LibvirtDeadlines& deadlines)
      : uri_(std::move(uri)), deadlines_(deadlines) {
    connection();
  }

  HypervisorVersions versions() override {
    return call("read libvirt's version", deadlines_.version, [](const ConnectionHandle& c, const auto& op) {
      unsigned long library = 0, hypervisor = 0;
      if (virConnectGetLibVersion(c.get(), &library) < 0 || virConnectGetVersion(c.get(), &hypervisor) < 0) {
        throw_libvirt_error(op);
      }
      const char* type = virConnectGetType(c.get());
      return HypervisorVersions{dotted(library), std::string(type ? type : "") + " " + dotted(hypervisor)};
    });
  }

  void create_network(const NetworkSpec& spec) override {
    call("create network " + spec.name, deadlines_.create,
         [xml = network_xml(spec)](const ConnectionHandle& c, const auto& op) {
           const NetworkHandle network(virNetworkCreateXML(c.get(), xml.c_str()));
           if (!network) { throw_libvirt_error(op); }
         });
  }

  void destroy_network(const std::string& name) override {
    call("destroy network " + name, deadlines_.destroy, [name](const ConnectionHandle& c, const auto& op) {
      const NetworkHandle network(virNetworkLookupByName(c.get(), name.c_str()));
      if (!network && virGetLastErrorCode() == VIR_ERR_NO_NETWORK) { return; }
      if (!network || virNetworkDestroy(network.get()) < 0) { throw_libvirt_error(op); }
    });
  }

  /// It ends with the connection, and so with this process, however that ends.
  void create_domain(const DomainSpec& spec) override {
    call("start domain " + spec.name, create_deadline(deadlines_, spec),
         [xml = domain_xml(spec)](const ConnectionHandle& c, const auto& op) {
           const DomainHandle domain(virDomainCreateXML(c.get(), xml.c_str(), VIR_DOMAIN_START_AUTODESTROY));
           if (!domain) { throw_libvirt_error(op); }
         });
  }

  UniqueFd open_channel(const std::string& domain) override {
    return call("open the channel of " + domain, deadlines_.query,
                [domain](const ConnectionHandle& c, const auto&) {
                  return open_libvirt_channel(c, domain, agent_channel);
                });
  }

  std::string domain_description(const std::string& name) override {
    return call("read the XML of domain " + name, deadlines_.query,
                [name](const ConnectionHandle& c, const auto& op) {
                  const DomainHandle domain(virDomainLookupByName(c.get(), name.c_str()));
                  if (!domain && virGetLastErrorCode() == VIR_ERR_NO_DOMAIN) {
                    throw Error(op, ErrorCode::not_found, "libvirt knows no domain of this name");
                  }
                  if (!domain) { throw_libvirt_error(op); }
                  return take(virDomainGetXMLDesc(domain.get(), 0));
                });
  }

  void destroy_domain(const std::string& name) override {
    call("destroy domain " + name, deadlines_.destroy, [name](const ConnectionHandle& c, const auto& op) {
      const DomainHandle domain(virDomainLookupByName(c.get(), name.c_str()));
      if (!domain && virGetLastErrorCode() == VIR_ERR_NO_DOMAIN) { return; }
      if (!domain) { throw_libvirt_error(op); }
      // SIGTERM, and SIGKILL 10 s later if QEMU is stuck; the graceful flag would first wait 15 s more for
      // nothing.
      if (virDomainDestroy(domain.get()) == 0) { return; }
      // It may have ended by itself in between, which is what was wanted.
      const auto code = virGetLastErrorCode();
      if (code != VIR_ERR_NO_DOMAIN && code != VIR_ERR_OPERATION_INVALID) { throw_libvirt_error(op); }
    });
  }

  DomainStats domain_stats(const std::string& name) override {
    return call("read counters of " + name, deadlines_.query,
                [name](const ConnectionHandle& c, const auto& op) {
                  return read_stats(find_domain(c, name, op).get(), name, op);
                });
  }

  std::vector<DomainInfo> domains() override {
    return listed<DomainHandle>("list domains", virConnectListAllDomains, 0U, [](virDomainPtr domain) {
      char uuid[VIR_UUID_STRING_BUFLEN] = {};
      virDomainGetUUIDString(domain, uuid);
      return DomainInfo{virDomainGetName(domain), uuid,
                        read_lease_mark(take(virDomainGetXMLDesc(domain, 0)))};
    });
  }

  std::vector<NetworkInfo> networks() override {
    return listed<NetworkHandle>("list networks", virConnectListAllNetworks, 0U, [](virNetworkPtr network) {
      return NetworkInfo{virNetworkGetName(network), take(virNetworkGetBridgeName(network)),
                         read_lease_mark(take(virNetworkGetXMLDesc(network, 0)))};
    });
  }

  std::vector<NodeDevice> pci_devices() override {
    const auto read = [](virNodeDevicePtr device) {
      return read_node_device(take(virNodeDeviceGetXMLDesc(device, 0)));
    };
    std::vector<NodeDevice> found;
    for (auto& device : listed<NodeDeviceHandle>("list PCI devices", virConnectListAllNodeDevices,
                                                 VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV, read)) {
      if (device) { found.push_back(std::move(*device)); }
    }
    return found;
  }

 private:
  /// The connection, opened anew if the daemon went away since the last call.
  ConnectionHandle connection() {
    const std::scoped_lock lock(mutex_);
    if (connection_ && virConnectIsAlive(connection_.get()) == 1) { return connection_; }
    try {
      connection_ =
          with_deadline("connect to " + uri_, deadlines_.connect, [uri = uri_] { return open_libvirt(uri); });
    } catch (const Error& error) {
      if (connection_) {
        throw;  // it worked before: the daemon went away
      }
      throw Error(error.operation(), ErrorCode::host_unable,
                  error.message() + " (is libvirt-daemon-system installed and libvirtd running?)");
    }
    return connection_;
  }

  template <typename Work>
  std::invoke_result_t<Work, const ConnectionHandle&, const std::string&> call(
      const std::string& operation, std::chrono::milliseconds deadline, Work work) {
    return with_deadline(operation, deadline,
                         [c = connection(), operation, work] { return work(c, operation); });
  }

  /// Applies `read` to each thing that one of libvirt's listing functions gives.
  template <typename Handle, typename List, typename Read>
  std::vector<std::invoke_result_t<Read, typename Handle::pointer>> listed(const std::string& what, List list,
                                                                           unsigned flags, Read read) {
    return call(what, deadlines_.query, [list, flags, read](const ConnectionHandle& c, const auto& op) {
      typename Handle::pointer* raw = nullptr;
      const int count = list(c.get(), &raw, flags);
      if (count < 0) { throw_libvirt_error(op); }
      const std::unique_ptr<typename Handle::pointer, decltype(&std::free)> owned(raw, std::free);
      std::vector<decltype(read(*raw))> found;
      for (int i = 0; i < count; ++i) { found.push_back(read(Handle(raw[i]).get())); }
      return found;
    });
  }

  const std::string uri_;
  const LibvirtDeadlines deadlines_;
  std::mutex mutex_;
  ConnectionHandle connection_;
};

}  // namespace

std::chrono::milliseconds create_deadline(const LibvirtDeadlines& deadlines, const DomainSpec& spec) {
  return deadlines.create + pinning_time(spec.memory_bytes, spec.devices, spec.hugepages);
}

std::unique_ptr<Hypervisor> connect_libvirt(const std::string& uri, const LibvirtDeadlines& deadlines) {
  return std::make_unique<LibvirtHypervisor>(uri, deadlines);
}

}  // namespace virtrain::vmctl
