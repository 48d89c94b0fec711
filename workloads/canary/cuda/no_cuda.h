#pragma once

namespace virtrain::canary {

/// What a build without CUDA says of GPUs.
inline constexpr const char* no_cuda =
    "this virtrain-canary was built without CUDA, through which a GPU is reached (install a CUDA toolkit and "
    "build again)";

}  // namespace virtrain::canary
