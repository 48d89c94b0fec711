#include "vmctl/guest/cloud/cloud_image.h"

#include <archive.h>
#include <archive_entry.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting_writer.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

const CloudSeed a_seed{{"t1n1", "10.77.0.1/16", {{"t1n1", "10.77.0.1"}, {"t1n2", "10.77.0.2"}}},
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
    if (archive_entry_filetype(entry) != S_IFREG) { continue; }
    std::string content(static_cast<std::size_t>(archive_entry_size(entry)), '\0');
    archive_read_data(reader, content.data(), content.size());
    found[archive_entry_pathname(entry)] = content;
  }
  archive_read_free(reader);
  return found;
}

TEST_CASE("cloud-init finds the seed by its label, with the three files under their own names") {
  const TemporaryFolder folder;
  write_seed(a_seed, "7d1f7ad6-2f0e-4d5c-8b6e-0a1b2c3d4e5f", folder.path / "seed.iso");
  const auto label =
      run_checked({"blkid", "-p", "-o", "value", "-s", "LABEL", (folder.path / "seed.iso").string()});
  CHECK(label.out == "cidata\n");
  const auto files = files_in(folder.path / "seed.iso");
  REQUIRE(files.size() == 3);
  CHECK(files.at("user-data") == cloud_user_data(a_seed));
  const auto meta = nlohmann::json::parse(files.at("meta-data"));
  CHECK(meta.at("local-hostname") == "t1n1");
  CHECK(meta.at("instance-id") == "7d1f7ad6-2f0e-4d5c-8b6e-0a1b2c3d4e5f");
  CHECK(nlohmann::json::parse(files.at("network-config")).at("config") == "disabled");
}

TEST_CASE("the start script learns name, address, NIC and neighbours") {
  CHECK(in_a_shell(a_seed, "$HOST $ADDRESS $MAC") == "t1n1 10.77.0.1/16 52:54:00:00:00:01\n");
  CHECK(in_a_shell(a_seed, "$HOSTS") == "t1n1:10.77.0.1 t1n2:10.77.0.2\n");
  CHECK(in_a_shell({{"t1n1", "", {}}, "52:54:00:00:00:01"}, "[$ADDRESS][$MAC][$HOSTS][$PAYLOAD]") ==
        "[][][][]\n");
  CHECK(in_a_shell({{"t1n1", "", {}, true}, ""}, "$PAYLOAD") == "yes\n");
}

TEST_CASE("an image may be qcow2 or raw, whole, and readable by QEMU's user") {
  const TemporaryFolder folder;
  ::chmod(folder.path.c_str(), 0755);
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
  CHECK((fs::status(folder.path / "overlay.qcow2").permissions() & fs::perms::others_all) == fs::perms::none);
  ::chmod((folder.path / "overlay.qcow2").c_str(), 0644);
  CHECK(refusal(folder.path / "overlay.qcow2").find("qemu-img convert") != std::string::npos);
  CHECK(refusal(folder.path / "none.qcow2").find("no such file") != std::string::npos);
  ::chmod(base.c_str(), 0600);
  CHECK(refusal(base).find("chmod a+r") != std::string::npos);
  if (::geteuid() == 0) {
    ::chmod(base.c_str(), 0644);
    ::chmod(folder.path.c_str(), 0700);
    CHECK(refusal(base).find("a folder that QEMU's user may not enter") != std::string::npos);
    ::chmod(folder.path.c_str(), 0755);
  }
  const auto other = folder.path / "disk.vdi";
  run_checked({"qemu-img", "create", "-q", "-f", "vdi", other.string(), "1M"});
  ::chmod(other.c_str(), 0644);
  CHECK(refusal(other).find("its format is vdi (allowed: qcow2, raw)") != std::string::npos);
}

TEST_CASE("row 15: an image that takes its bytes from other files is refused, and nothing opens it as root") {
  const TemporaryFolder folder;
  ::chmod(folder.path.c_str(), 0755);
  const auto create = [&](const std::string& name, std::vector<std::string> options) {
    auto file = folder.path / name;
    std::vector<std::string> words{"qemu-img", "create", "-q"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {file.string(), "3M"});
    run_checked(words);
    ::chmod(file.c_str(), 0644);
    return file;
  };
  const auto refusal = [](const fs::path& image) {
    try {
      inspect_cloud_image(image);
    } catch (const Error& error) { return error.message(); }
    return std::string("taken");
  };
  const auto data = folder.path / "data";
  CHECK(refusal(create("data.qcow2", {"-f", "qcow2", "-o", "data_file=" + data.string()}))
            .find("its data is in another file") == 0);
  // qemu-img measures the processor before it encrypts, which takes seconds: the header's field is enough.
  const auto encrypted = create("key.qcow2", {"-f", "qcow2"});
  std::fstream(encrypted, std::ios::in | std::ios::out | std::ios::binary).seekp(35).put(2);
  CHECK(refusal(encrypted).find("it is encrypted") == 0);
  for (const char* format : {"vdi", "vmdk", "vhdx", "vpc", "qed"}) {
    CHECK(refusal(create(std::string("disk.") + format, {"-f", format})).find("its format is ") == 0);
  }
  CHECK(refusal(folder.path) == "it is not a regular file");
  const test::WaitingWriter writer(folder.path / "pipe");
  CHECK(refusal(folder.path / "pipe") == "it is not a regular file");
  CHECK_FALSE(writer.was_let_in());  // what opening would do to /dev/watchdog

  // Whole ones are taken as they are, whichever version.
  for (const char* version : {"compat=0.10", "compat=1.1", "extended_l2=on", "lazy_refcounts=on"}) {
    INFO(version);
    const auto image = inspect_cloud_image(create("whole.qcow2", {"-f", "qcow2", "-o", version}));
    CHECK(image.format == "qcow2");
    CHECK(image.virtual_bytes == 3 << 20);
    const auto overlay = folder.path / "overlay.qcow2";
    make_overlay(image, overlay);
    const auto info =
        nlohmann::json::parse(run_checked({"qemu-img", "info", "--output=json", overlay.string()}).out);
    CHECK(info.at("virtual-size") == 3 << 20);
    CHECK(info.at("backing-filename-format") == "qcow2");
  }
  // The overlay is made without a look at what is below it.
  make_overlay({folder.path / "gone.qcow2", "qcow2", "", 1 << 20}, folder.path / "over-nothing.qcow2");
  CHECK(fs::exists(folder.path / "over-nothing.qcow2"));
}

}  // namespace
}  // namespace virtrain::vmctl
