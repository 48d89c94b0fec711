#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"

namespace virtrain::vmctl {

/// Compares with tests/golden/vmctl/`name`; VIRTRAIN_UPDATE_GOLDEN=1 rewrites it, for a look at the
/// difference with git.
inline void check_golden(const std::string& name, const std::string& text) {
  const auto file = std::filesystem::path(VIRTRAIN_SOURCE_DIR) / "tests/golden/vmctl" / name;
  if (std::getenv("VIRTRAIN_UPDATE_GOLDEN") != nullptr) { std::ofstream(file) << text; }
  CHECK(read_file(file).value_or("(no such file)") == text);
}

/// libvirt's own schema, "domain" or "network".
inline void check_schema(const std::string& schema, const std::string& text) {
  const auto file =
      std::filesystem::temp_directory_path() / (schema + "-" + std::to_string(::getpid()) + ".xml");
  std::ofstream(file) << text;
  const auto result = run_command({"virt-xml-validate", file.string(), schema});
  std::filesystem::remove(file);
  INFO(text << result.out << result.err);
  CHECK(result.exit_status == 0);
}

}  // namespace virtrain::vmctl
