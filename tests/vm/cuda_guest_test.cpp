// The guest that the CUDA trainer gets, without a GPU: needs root, QEMU, libvirt, supermin and the CUDA
// toolkit.

#include <unistd.h>

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "tests/support/stub_client.h"
#include "tests/vm/stage.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"

namespace virtrain::vmctl {
namespace {

using test::StubClient;
namespace fs = std::filesystem;

/// Where the engine test looks for it, which may be a folder that the guest has a file system of its own for.
const fs::path device = fs::path(VIRTRAIN_SOURCE_DIR) / "tests/workloads/resnet50/cuda/devices/sm_90.json";

/// With libraries of more than a gigabyte, so not one of the images that are kept.
struct CudaImage {
  CudaImage() {
    MirrorSpec spec{{{VIRTRAIN_BINARY_DIR "/virtrain-stub-agent", "/usr/bin/virtrain-agent"},
                     {VIRTRAIN_BINARY_DIR "/virtrain-resnet50-cuda", "/usr/bin/trainer"},
                     {VIRTRAIN_BINARY_DIR "/workloads_cuda_engine_test", "/usr/bin/engine-test"},
                     {device, "/usr/share/sm_90.json"}},
                    {},
                    folder};
    spec.texts["/usr/lib/modprobe.d/virtrain-nvidia.conf"] = "alias nvidia dummy\n";
    spec.files.push_back({device, "/usr/lib/firmware/nvidia/1/gsp.bin"});
    spec.symlinks["/lib/x86_64-linux-gnu/libnvidia-stand-in.so"] = "libc.so.6";  // as ldd spells folders
    image = build_mirror_image(spec);
  }
  ~CudaImage() { fs::remove_all(folder); }

  fs::path folder = "/var/tmp/virtrain-cudaimage-" + std::to_string(::getpid());
  GuestImage image;
};

TEST_CASE("the CUDA trainer's guest has the libraries that cuDNN opens as it runs") {
  test::need_root();
  const LibvirtDaemon daemon;
  const auto hypervisor = connect_libvirt("qemu:///system");
  const CudaImage cuda;
  const Stage stage(*hypervisor);
  hypervisor->create_network({"virtrain-vmtest", "vtvmtest", {"vmtest", ""}});
  auto spec = guest(cuda.image, 1, log_folder());
  spec.memory_bytes = 1U << 30;
  hypervisor->create_domain(spec);
  StubClient client(hypervisor->open_channel(spec.name));
  REQUIRE(client.line() == "hello g1");

  // As nvidia-modprobe does; a module that is there stands in for Debian's nvidia-current.
  CHECK(client.ask("run modprobe nvidia && grep -c ^dummy /proc/modules") == "1\n");
  CHECK(client.ask("run test -s /lib/firmware/nvidia/1/gsp.bin && "
                   "test -s /usr/lib/x86_64-linux-gnu/libnvidia-stand-in.so && echo both") == "both\n");
  // It asks cuDNN for engines of a described GPU; the guest has no driver.
  client.ask("run mkdir -p " + device.parent_path().string() + " && cp /usr/share/sm_90.json " +
             device.string());
  const auto engines = client.ask("run engine-test 'where all engines want more*' 2>&1");
  CHECK_THAT(engines, virtrain::test::Contains("All tests passed"));
  CHECK_THAT(client.ask("run trainer --num_batches 1 </dev/null 2>&1; echo $?"),
             virtrain::test::Contains("no NVIDIA driver") && virtrain::test::EndsWith("4\n"));
}

}  // namespace
}  // namespace virtrain::vmctl
