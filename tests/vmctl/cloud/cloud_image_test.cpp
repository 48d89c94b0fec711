#include "vmctl/cloud/cloud_image.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

const CloudSeed kSeed{{"t1n1", "10.77.0.1/16", {{"t1n1", "10.77.0.1"}, {"t1n2", "10.77.0.2"}}},
                      "52:54:00:00:00:01"};

/// What a shell makes of the variables in the file that user-data writes.
std::string in_a_shell(const CloudSeed& seed, const std::string& expression) {
  const auto text = cloud_user_data(seed);
  REQUIRE(text.starts_with("#cloud-config\n"));
  const auto config = nlohmann::json::parse(text.substr(text.find('\n')));
  CommandOptions options;
  options.input =
      config.at("write_files").at(0).at("content").get<std::string>() + "echo \"" + expression + "\"\n";
  return run_checked({"sh"}, options).out;
}

std::map<std::string, std::string> files_in(const fs::path& image) {
  std::map<std::string, std::string> found;
  archive* reader = archive_read_new();
  archive_read_support_format_iso9660(reader);
  REQUIRE(archive_read_open_filename(reader, image.c_str(), 10240) == ARCHIVE_OK);
  archive_entry* entry = nullptr;
  while (archive_read_next_header(reader, &entry) == ARCHIVE_OK) {
    if (archive_entry_filetype(entry) != S_IFREG) continue;
    std::string content(static_cast<std::size_t>(archive_entry_size(entry)), '\0');
    archive_read_data(reader, content.data(), content.size());
    found[archive_entry_pathname(entry)] = content;
  }
  archive_read_free(reader);
  return found;
}

TEST_CASE("cloud-init finds the seed by its label, with the three files under their own names") {
  const TemporaryFolder folder;
  write_seed(kSeed, "7d1f7ad6-2f0e-4d5c-8b6e-0a1b2c3d4e5f", folder.path / "seed.iso");
  const auto label =
      run_checked({"blkid", "-p", "-o", "value", "-s", "LABEL", (folder.path / "seed.iso").string()});
  CHECK(label.out == "cidata\n");
  const auto files = files_in(folder.path / "seed.iso");
  REQUIRE(files.size() == 3);
  CHECK(files.at("user-data") == cloud_user_data(kSeed));
  const auto meta = nlohmann::json::parse(files.at("meta-data"));
  CHECK(meta.at("local-hostname") == "t1n1");
  CHECK(meta.at("instance-id") == "7d1f7ad6-2f0e-4d5c-8b6e-0a1b2c3d4e5f");
  CHECK(nlohmann::json::parse(files.at("network-config")).at("config") == "disabled");
}

TEST_CASE("the start script learns name, address, NIC and neighbours") {
  CHECK(in_a_shell(kSeed, "$HOST $ADDRESS $MAC") == "t1n1 10.77.0.1/16 52:54:00:00:00:01\n");
  CHECK(in_a_shell(kSeed, "$HOSTS") == "t1n1:10.77.0.1 t1n2:10.77.0.2\n");
  CHECK(in_a_shell({{"t1n1", "", {}}, "52:54:00:00:00:01"}, "[$ADDRESS][$MAC][$HOSTS]") == "[][][]\n");
}

TEST_CASE("an image may be qcow2 or raw, whole, and readable by QEMU's user") {
  const TemporaryFolder folder;
  const auto refusal = [](const fs::path& image) {
    try {
      inspect_cloud_image(image);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::host_unable);
      return std::string(error.what());
    }
    FAIL("taken: " << image);
    return std::string();
  };
  const auto base = folder.path / "base.qcow2";
  run_checked({"qemu-img", "create", "-q", "-f", "qcow2", base.string(), "1M"});
  ::chmod(base.c_str(), 0644);
  CHECK(inspect_cloud_image(base).format == "qcow2");
  make_overlay(inspect_cloud_image(base), folder.path / "overlay.qcow2");
  ::chmod((folder.path / "overlay.qcow2").c_str(), 0644);
  CHECK(refusal(folder.path / "overlay.qcow2").find("qemu-img convert") != std::string::npos);
  CHECK(refusal(folder.path / "none.qcow2").find("no such file") != std::string::npos);
  ::chmod(base.c_str(), 0600);
  CHECK(refusal(base).find("chmod a+r") != std::string::npos);
  const auto other = folder.path / "disk.vdi";
  run_checked({"qemu-img", "create", "-q", "-f", "vdi", other.string(), "1M"});
  ::chmod(other.c_str(), 0644);
  CHECK(refusal(other).find("its format is vdi (allowed: qcow2, raw)") != std::string::npos);
}

}  // namespace
}  // namespace virtrain::vmctl
