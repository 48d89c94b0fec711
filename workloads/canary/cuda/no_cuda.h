#pragma once

namespace virtrain::canary {

/// Error message about GPUs in a build without CUDA.
inline constexpr const char* no_cuda =
    "this virtrain-canary was built without CUDA, through which a GPU is reached (install a CUDA toolkit and "
    "build again)";

}  // namespace virtrain::canary
