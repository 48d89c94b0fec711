#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/files/unique_fd.h"
#include "harness/hosts/host_client.h"
#include "vmctl/host/host_server.h"

namespace virtrain::test {

/// A host behind real frames: its server on a thread of this process, and a client of it.
class FramedHost {
 public:
  /// `name`: of one of several hosts.
  explicit FramedHost(vmctl::Host& host, const std::string& name = "") {
    auto [ours, theirs] = make_socketpair();
    server_ = std::make_unique<vmctl::HostServer>(host, duplicate(theirs.get()), std::move(theirs));
    thread_ = std::thread([this] {
      why_ = server_->serve();
      server_->undo();
    });
    try {
      client_ = harness::host_client({duplicate(ours.get()), std::move(ours), -1, {}, name});
    } catch (...) {
      end();
      throw;
    }
  }
  ~FramedHost() { end(); }
  FramedHost(const FramedHost&) = delete;
  FramedHost& operator=(const FramedHost&) = delete;

  vmctl::Host& client() { return *client_; }
  /// The client as somebody else's, who lets go of it before this ends.
  std::unique_ptr<vmctl::Host> take_client() { return std::move(client_); }
  vmctl::HostServer& server() { return *server_; }
  /// The coordinator goes; returns, once all is undone, why the server ended.
  std::string end() {
    client_.reset();
    if (thread_.joinable()) { thread_.join(); }
    return why_;
  }

 private:
  std::unique_ptr<vmctl::HostServer> server_;
  std::thread thread_;
  std::unique_ptr<vmctl::Host> client_;
  std::string why_;
};

}  // namespace virtrain::test
