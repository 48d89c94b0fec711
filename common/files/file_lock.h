#pragma once

#include <chrono>
#include <filesystem>

#include "common/error.h"
#include "common/files/unique_fd.h"

namespace virtrain {

enum class LockKind { shared, exclusive };

/// Opens the file, makes it if need be (mode 0600: who may not open a lock cannot hold it), and locks it
/// (flock) until the descriptor goes. Throws Error(busy) past the deadline, Error(host_unable) where the file
/// system has no locks, Error(interrupted) once `cancelled`, which is asked while it waits, says so.
UniqueFd lock_file(const std::filesystem::path& file, LockKind kind, std::chrono::milliseconds deadline,
                   const Cancelled& cancelled = {});

/// Whether somebody has the file locked exclusively, found out without making or changing it.
bool is_locked(const std::filesystem::path& file);

/// As lock_file() without waiting; nothing where somebody has it.
UniqueFd try_lock_file(const std::filesystem::path& file, LockKind kind);

}  // namespace virtrain
