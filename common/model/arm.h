#pragma once

// The arms that every scenario may name; others are variants of these.
namespace virtrain {

inline constexpr const char* arm_bare_metal = "bare_metal";
inline constexpr const char* arm_vm = "vm";
inline constexpr const char* arm_bare_metal_shared = "bare_metal_shared";

/// The base of arms whose machines exist already.
inline constexpr const char* arm_attach = "attach";

}  // namespace virtrain
