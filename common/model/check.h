#pragma once

#include "common/enum_text.h"

// How a check of a host, or of a trial, ends.
namespace virtrain {

/// What a failed check means: it cannot run; figures do not count; figures may suffer; worth knowing.
enum class Severity { blocks, invalidates, warns, notes };
BOOST_DESCRIBE_ENUM(Severity, blocks, invalidates, warns, notes)

enum class CheckStatus { ok, failed, skipped };
BOOST_DESCRIBE_ENUM(CheckStatus, ok, failed, skipped)

}  // namespace virtrain
