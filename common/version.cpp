#include "common/version.h"

namespace virtrain {

const char* const virtrain_version = VIRTRAIN_VERSION;

}  // namespace virtrain
