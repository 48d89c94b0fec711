#pragma once

#include "common/enum_text.h"

namespace virtrain {

/// State of an experiment and of a trial.
VIRTRAIN_ENUM_CLASS(Status, running, finished, failed, interrupted)

}  // namespace virtrain
