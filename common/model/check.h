#pragma once

#include "common/enum_text.h"

// How a check of a host, or of a trial, ends.
namespace virtrain {

/// What a failed check means: it cannot run; figures do not count; figures may suffer; worth knowing.
BOOST_DEFINE_ENUM_CLASS(Severity, blocks, invalidates, warns, notes)

BOOST_DEFINE_ENUM_CLASS(CheckStatus, ok, failed, skipped)

}  // namespace virtrain
