#include "vmctl/hypervisor/libvirt/hypervisor.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <mutex>
#include <string>

#include "common/files/unique_fd.h"
#include "common/system/time.h"
#include "vmctl/hypervisor/libvirt/handles.h"
#include "vmctl/hypervisor/qemu_process.h"

namespace virtrain::vmctl {
namespace {

constexpr std::size_t buffer_limit = 1U << 20;
constexpr std::size_t chunk_bytes = 64U << 10;

/// Moves bytes between a libvirt stream and a socket. Driven by libvirt's event loop only; the mutex covers
/// the moment in which another thread sets it up.
class ChannelPump : public std::enable_shared_from_this<ChannelPump> {
 public:
  ChannelPump(ConnectionHandle connection, virStreamPtr stream, UniqueFd socket)
      : connection_(std::move(connection)), stream_(stream), socket_(std::move(socket)) {}
  ~ChannelPump() { virStreamFree(stream_); }

  void start() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    watch_ = virEventAddHandle(socket_.get(), VIR_EVENT_HANDLE_READABLE, on_socket, hold(), release);
    constexpr int stream_events =
        VIR_STREAM_EVENT_READABLE | VIR_STREAM_EVENT_HANGUP | VIR_STREAM_EVENT_ERROR;
    if (watch_ < 0 || virStreamEventAddCallback(stream_, stream_events, on_stream, hold(), release) < 0) {
      if (watch_ >= 0) { virEventRemoveHandle(watch_); }
      throw_libvirt_error("watch the guest's channel");
    }
  }

  /// The daemon is gone, and with it the stream.
  void lose() {
    const std::scoped_lock lock(mutex_);
    if (!open_) { return; }
    guest_ended_ = true;
    write_socket();
    close();
  }

 private:
  using Shared = std::shared_ptr<ChannelPump>;
  Shared* hold() { return new Shared(shared_from_this()); }
  static void release(void* held) { delete static_cast<Shared*>(held); }

  static void on_stream(virStreamPtr, int events, void* held) {
    const Shared self = *static_cast<Shared*>(held);
    const std::scoped_lock lock(self->mutex_);
    if (self->open_ && !self->guest_ended_) { self->stream_ready(events); }
  }
  static void on_socket(int, int, int events, void* held) {
    const Shared self = *static_cast<Shared*>(held);
    const std::scoped_lock lock(self->mutex_);
    if (self->open_) { self->socket_ready(events); }
  }

  void stream_ready(int events) {
    // Data that came before a hang-up is still to be read, so look at READABLE first.
    if (events & (VIR_STREAM_EVENT_READABLE | VIR_STREAM_EVENT_HANGUP)) { receive(); }
    if (!guest_ended_ && (events & VIR_STREAM_EVENT_WRITABLE)) { send(); }
    if (events & (VIR_STREAM_EVENT_ERROR | VIR_STREAM_EVENT_HANGUP)) { guest_ended_ = true; }
    update();
  }

  void receive() {
    std::array<char, chunk_bytes> chunk;
    while (to_host_.size() < buffer_limit) {
      const int got = virStreamRecv(stream_, chunk.data(), chunk.size());
      if (got == -2) {
        return;  // nothing more for now
      }
      if (got <= 0) {
        guest_ended_ = true;
        return;
      }
      to_host_.append(chunk.data(), static_cast<std::size_t>(got));
    }
  }

  void send() {
    while (!to_guest_.empty()) {
      const int sent = virStreamSend(stream_, to_guest_.data(), std::min(to_guest_.size(), chunk_bytes));
      if (sent == -2) { return; }
      if (sent < 0) {
        guest_ended_ = true;
        return;
      }
      to_guest_.erase(0, static_cast<std::size_t>(sent));
    }
  }

  void socket_ready(int events) {
    if (events & VIR_EVENT_HANDLE_WRITABLE) { write_socket(); }
    if (events & (VIR_EVENT_HANDLE_READABLE | VIR_EVENT_HANDLE_HANGUP | VIR_EVENT_HANDLE_ERROR)) {
      read_socket();
    }
    update();
  }

  void read_socket() {
    std::array<char, chunk_bytes> chunk;
    while (to_guest_.size() < buffer_limit) {
      const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) { return; }
      if (got <= 0) {
        host_ended_ = true;
        return;
      }
      to_guest_.append(chunk.data(), static_cast<std::size_t>(got));
    }
  }

  void write_socket() {
    while (!to_host_.empty()) {
      const ssize_t sent =
          ::send(socket_.get(), to_host_.data(), to_host_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) { return; }
      if (sent < 0) {
        host_ended_ = true;
        return;
      }
      to_host_.erase(0, static_cast<std::size_t>(sent));
    }
  }

  void update() {
    write_socket();
    if (!guest_ended_) { send(); }
    // The guest's last bytes still reach the host; the host's last bytes are dropped with its end.
    if (host_ended_ || (guest_ended_ && to_host_.empty())) { return close(); }
    int socket_events = to_guest_.size() < buffer_limit && !guest_ended_ ? VIR_EVENT_HANDLE_READABLE : 0;
    if (!to_host_.empty()) { socket_events |= VIR_EVENT_HANDLE_WRITABLE; }
    virEventUpdateHandle(watch_, socket_events);
    if (guest_ended_) { return; }
    int stream_events = VIR_STREAM_EVENT_HANGUP | VIR_STREAM_EVENT_ERROR;
    if (to_host_.size() < buffer_limit) { stream_events |= VIR_STREAM_EVENT_READABLE; }
    if (!to_guest_.empty()) { stream_events |= VIR_STREAM_EVENT_WRITABLE; }
    virStreamEventUpdateCallback(stream_, stream_events);
  }

  void close() {
    open_ = false;
    virEventRemoveHandle(watch_);
    virStreamEventRemoveCallback(stream_);
    socket_.reset();
    // Aborting asks the daemon and may block; the event loop may not.
    detach_if_possible([self = shared_from_this()] { virStreamAbort(self->stream_); });
  }

  const ConnectionHandle connection_;  // the stream needs it alive
  const virStreamPtr stream_;
  std::mutex mutex_;
  UniqueFd socket_;
  int watch_ = -1;
  bool open_ = false;
  bool guest_ended_ = false;
  bool host_ended_ = false;
  std::string to_host_;
  std::string to_guest_;
};

/// Opens the named virtio-serial port of a running domain as a byte stream on a socket. Either side's end
/// closes the other. Blocks as libvirt does: call it inside with_deadline().
UniqueFd open_libvirt_channel(const ConnectionHandle& connection, const std::string& domain,
                              const std::string& port) {
  const std::string operation = "open channel " + port + " of " + domain;
  const DomainHandle handle(virDomainLookupByName(connection.get(), domain.c_str()));
  if (!handle) { throw_libvirt_error(operation); }
  virStreamPtr stream = virStreamNew(connection.get(), VIR_STREAM_NONBLOCK);
  if (stream == nullptr) { throw_libvirt_error(operation); }
  auto [ours, theirs] = make_socketpair();
  const auto pump = std::make_shared<ChannelPump>(connection, stream, std::move(theirs));
  if (virDomainOpenChannel(handle.get(), port.c_str(), stream, 0) < 0) { throw_libvirt_error(operation); }
  when_closed(connection, [weak = std::weak_ptr(pump)] {
    if (const auto still_open = weak.lock()) { still_open->lose(); }
  });
  pump->start();
  return std::move(ours);
}

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
