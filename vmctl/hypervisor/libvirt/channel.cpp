#include "vmctl/hypervisor/libvirt/channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <mutex>

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

}  // namespace

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

}  // namespace virtrain::vmctl
