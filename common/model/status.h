#pragma once

#include "common/enum_text.h"

namespace virtrain {

/// State of an experiment and of a trial.
enum class Status { running, finished, failed, interrupted };
BOOST_DESCRIBE_ENUM(Status, running, finished, failed, interrupted)

}  // namespace virtrain
