// Shells of machines that exist already: what they are told, and what is read of them. The scripts run in
// this machine's own sh.

#include "harness/hosts/attach_script.h"

#include <filesystem>
#include <fstream>

#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "harness/hosts/travel_bundle.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/payload.h"

namespace virtrain::harness {
namespace {

using test::Contains;
using vmctl::is_of_gpu_driver;
namespace fs = std::filesystem;

constexpr std::uint64_t mib = 1 << 20;

FarMachine fit_machine() {
  return parse_probe({"proc yes", "architecture x86_64", "kernel 5.10.0", "system Linux", "libc musl libc",
                      "identity 11 22", "folder 4096 no /tmp", "folder 2048000 yes /var/tmp",
                      "folder 9 yes /dev/shm"});
}

CommandResult sh(const std::string& script) {
  CommandOptions options;
  options.input = script;
  return run_command({"sh"}, options);
}

TEST_CASE(
    "ssh is told to ask for no password, whatever the launcher says, and other launchers are as they are") {
  const auto words = attach_words({"/usr/bin/ssh", "-T", "-o", "BatchMode=no", "vm1"});
  CHECK(words[2] == "BatchMode=yes");  // ssh takes the first
  CHECK(words.back() == "sh");
  CHECK(attach_words({"kubectl", "exec", "-i", "pod/v", "--"}) ==
        std::vector<std::string>{"kubectl", "exec", "-i", "pod/v", "--", "sh"});
  CHECK(asks_for_password("me@vm1: Permission denied (publickey,password)."));
  CHECK(asks_for_password("sudo: a terminal is required to read the password"));
  CHECK_FALSE(asks_for_password("ssh: connect to host vm1 port 22: Connection refused"));
}

TEST_CASE("a machine is refused in words where the programs cannot run there") {
  CHECK(why_unfit(fit_machine(), "x86_64", 100 * mib) == "");
  CHECK(fit_folders(fit_machine(), 100 * mib) == std::vector<std::string>{"/var/tmp"});
  CHECK_THAT(why_unfit(fit_machine(), "aarch64", 1),
             Contains("its architecture is x86_64, and this build's"));
  CHECK_THAT(why_unfit(fit_machine(), "x86_64", 1ULL << 40),
             Contains("/tmp is mounted noexec, /var/tmp has 1.95GiB"));
  auto machine = fit_machine();
  machine.has_terminal = true;
  CHECK_THAT(why_unfit(machine, "x86_64", 1), Contains("terminal, which changes bytes"));
  machine = fit_machine();
  machine.missing = {"tar", "gzip"};
  CHECK_THAT(why_unfit(machine, "x86_64", 1), Contains("it lacks tar, gzip"));
  machine = fit_machine();
  machine.has_proc = false;
  CHECK_THAT(why_unfit(machine, "x86_64", 1), Contains("no /proc"));
  machine.system = "Darwin";
  CHECK_THAT(why_unfit(machine, "x86_64", 1), Contains("it runs Darwin"));
}

TEST_CASE("what a shell says is bounded, and folders with odd names are not used") {
  const auto machine = parse_probe({"folder 10 yes /tmp/a b", "folder 10 yes /tmp/$(x)", "folder x yes /tmp",
                                    "folder 5", "kernel " + std::string(10'000, 'k'), "odd", ""});
  CHECK(machine.folders.empty());
  CHECK(machine.kernel.size() <= 200);
}

TEST_CASE("this machine's sh describes it") {
  const auto told =
      sh(probe_script("n1", {{"sh", "no-such-program", "it's; false", "/bin/sh", "bin/sh"}, 0}));
  const auto lines = split(told.out, '\n');
  const auto begin = std::ranges::find(lines, begin_line("n1"));
  const auto end = std::ranges::find(lines, end_line("n1"));
  REQUIRE(begin < end);
  const auto machine = parse_probe({begin + 1, end});
  CHECK(machine.system == "Linux");
  CHECK(machine.has_proc);
  CHECK_FALSE(machine.has_terminal);
  CHECK(machine.missing.empty());
  CHECK_FALSE(machine.folders.empty());
  CHECK_FALSE(machine.identity.empty());
  CHECK(machine.absent == std::vector<std::string>{"no-such-program", "it's; false", "bin/sh"});
}

TEST_CASE("a machine is refused in words for what it lacks of its own") {
  CHECK(why_lacking(fit_machine(), {}) == "");
  CHECK_THAT(why_lacking(parse_probe({"absent python3"}), {}), Contains("it lacks python3, which"));
  CHECK_THAT(why_lacking(parse_probe({"gpu yes"}), {{}, 1}), Contains("no libcuda.so.1"));
  CHECK_THAT(why_lacking(parse_probe({"gpu yes", "cuda yes", "cuda yes"}), {{}, 2}),
             Contains("it has 1 GPU (/dev/nvidia0, …), and the scenario has 2"));
  CHECK(why_lacking(parse_probe({"gpu yes", "gpu yes", "cuda yes"}), {{}, 2}) == "");
}

TEST_CASE("nothing of the GPU's driver travels") {
  CHECK(is_of_gpu_driver("libcuda.so.1"));
  CHECK(is_of_gpu_driver("libnvidia-ptxjitcompiler.so.1"));
  CHECK_FALSE(is_of_gpu_driver("libcudart.so.13"));
  CHECK_FALSE(is_of_gpu_driver("libnvrtc.so.13"));
}

TEST_CASE("a command of the machine's own finds no part of a bundle") {
  CommandOptions options;
  options.environment = {"VIRTRAIN_BUNDLE=/b", "PATH=/b/bin:/usr/bin:/bin", "OPAL_PKGLIBDIR=/b/mca"};
  auto words = outside_bundle();
  words.insert(words.end(), {"sh", "-c", "echo $PATH $OPAL_PKGLIBDIR $1", "sh", "a b"});
  CHECK(run_command(words, options).out == "/usr/bin:/bin a b\n");
}

TEST_CASE("the image of a payload is found on a machine by its path and its bytes") {
  const TemporaryFolder folder;
  const auto image = (folder.path / "it's env.sqfs").string();
  const auto refusal = [&](const std::string& path, const std::string& wanted) {
    return why_no_payload(split(sh(payload_script("n1", path)).out, '\n'), path, wanted);
  };
  // Of "abc", as FIPS 180-2 has it.
  const std::string digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  CHECK_THAT(refusal(image, digest),
             Contains("it cannot read") && Contains("rsync, a shared folder, sbcast"));
  std::ofstream(image) << "abc";
  CHECK(refusal(image, digest) == "");
  CHECK_THAT(refusal(image, std::string(64, '0')), Contains("env.sqfs has the SHA-256 ba7816bf"));
  CHECK_THAT(why_no_payload({"sha256 " + digest + "  -"}, image, digest),
             Contains("it lacks unsquashfs") && Contains("squashfs-tools"));
}

TEST_CASE("bytes that do not arrive whole leave nothing, and a clean-up ends what is left") {
  const TemporaryFolder above;
  const auto folder = (above.path / "virtrain-1").string();
  StartScript script{"n2", folder, 1000, std::string(64, '0'), {"X=1"}, 1000};
  const auto told = sh(start_script(script) + "not an archive");
  CHECK_THAT(told.out, Contains("virtrain-has-failed n2 the programs did not arrive") &&
                           Contains("virtrain-is-gone n2"));
  CHECK_FALSE(fs::exists(folder));

  fs::create_directories(fs::path(folder) / "bin");
  CommandOptions options;
  options.input = "VIRTRAIN_BUNDLE=" + folder +
                  " sleep 1000 & echo $!\n"
                  "until grep -qs VIRTRAIN_BUNDLE /proc/$!/environ; do :; done\n" +
                  clean_script("n3", folder);
  const auto cleaned = run_command({"sh"}, options);
  CHECK_THAT(cleaned.out, Contains("virtrain-is-gone n3"));
  CHECK_FALSE(fs::exists(folder));
  const auto pid = std::string(trim(split(cleaned.out, '\n')[0]));
  CHECK_FALSE(fs::exists("/proc/" + pid + "/exe"));
}

}  // namespace
}  // namespace virtrain::harness
