// virtrain as it is, on a FakeHost: for tests of whole commands, which need neither root nor libvirt. Its
// nodes run the agent and the programs that are in this program's folder.

#include "common/system/subprocess.h"
#include "harness/cli/cli.h"
#include "tests/support/fake_host.h"
#include "tests/support/temporary_folder.h"

int main(int argc, char** argv) {
  using namespace virtrain;
  const TemporaryFolder folder;
  std::map<std::string, std::filesystem::path> programs;
  for (const auto* name : {"virtrain-resnet50-cpu", "virtrain-probe", "virtrain-stress"}) {
    programs[name] = sibling_program(".") / name;
  }
  return harness::run_cli(argc, argv, [&](const harness::HostRequest&) {
    return std::make_unique<test::FakeHost>(folder.path, sibling_program("virtrain-agent"), programs);
  });
}
