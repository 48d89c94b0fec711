#pragma once

namespace virtrain::vmctl {

/// Advice where somebody has GPUs that are not NVIDIA's.
inline constexpr const char* works_with_other_gpus =
    "GPUs of other vendors work in jobs of your own on machines that exist already (attach, "
    "workload.command) and "
    "in logs that you import; scenarios without devices run here as well";

}  // namespace virtrain::vmctl
