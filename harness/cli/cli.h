#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "harness/hosts/host_client.h"

namespace virtrain::harness {

/// Makes a Host: this machine, or a recorded one.
using OpenHost = std::function<std::unique_ptr<vmctl::Host>(const HostRequest& request)>;

/// The whole program but for the choice of the host. Returns the exit status.
int run_cli(int argc, char** argv, OpenHost open);

/// Makes a host by the function that run_cli() was given.
std::unique_ptr<vmctl::Host> open_host(const HostRequest& request);
/// A recorded host, or this one with the best privileges that this user gets without a question, or by the
/// way that is asked for.
std::unique_ptr<vmctl::Host> open_host(const std::filesystem::path& root = "/",
                                       std::optional<Elevation> asked = {});

}  // namespace virtrain::harness
