#pragma once

#include <filesystem>
#include <memory>

#include "vmctl/api/host.h"

// The host of this process, which vmctl/host implements.
namespace virtrain::vmctl {

/// This host, or the recorded one below `root`, of which only what is there can be asked.
std::unique_ptr<Host> local_host(const std::filesystem::path& root = "/");

/// Goes on in a child that has what the mode gives and whose children end with it; before there are threads.
/// Nothing happens where the mode needs none of it.
void enter_mode(HostMode mode, bool with_vms);

}  // namespace virtrain::vmctl
