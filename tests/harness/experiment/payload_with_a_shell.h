#pragma once

#include <filesystem>

#include "common/system/subprocess.h"
#include "tests/support/skip.h"

namespace virtrain::harness {

/// A payload image in the folder in which a job finds `sh`.
inline std::filesystem::path payload_with_a_shell(const std::filesystem::path& folder) {
  if (on_path("mksquashfs").empty() || on_path("unsquashfs").empty()) {
    test::skip("squashfs-tools is not installed");
  }
  const auto root = folder / "root";
  auto image = folder / "env.sqfs";
  std::filesystem::create_directories(root / "bin");
  std::filesystem::copy("/bin/dash", root / "bin/sh");
  // The program that starts it: a payload without it is refused.
  const std::filesystem::path loader = "/lib64/ld-linux-x86-64.so.2";
  std::filesystem::create_directories(root / "lib64");
  std::filesystem::copy(std::filesystem::canonical(loader), root / loader.relative_path());
  run_checked({"mksquashfs", root.string(), image.string(), "-quiet", "-no-progress"});
  return image;
}

}  // namespace virtrain::harness
