#pragma once

#include <filesystem>

namespace virtrain::harness {

/// The virtrain that runs: what it starts of itself is the same one, whatever PATH says.
std::filesystem::path this_program();

/// Adds the folders of system programs (ip, debugfs, modprobe) to PATH where they are missing, as they are
/// under cron and for Debian's ordinary users. At the end: what the caller prefers stays first. Call before
/// threads start.
void complete_search_path();

}  // namespace virtrain::harness
