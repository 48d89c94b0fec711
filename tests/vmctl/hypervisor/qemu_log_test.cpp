#include "tests/support/catch.h"
#include "vmctl/hypervisor/qemu_process.h"

namespace virtrain::vmctl {
namespace {

const std::string start =
    "2026-11-21 02:17:45.112+0000: starting up libvirt version: 9.0.0, package: 9.0.0-4+deb12u2 (Debian)\n"
    "LC_ALL=C \\\n"
    "/usr/bin/qemu-system-x86_64 \\\n"
    "-name guest=virtrain-x-1,debug-threads=on \\\n"
    "-msg timestamp=on\n";

TEST_CASE("QEMU's last words are what came after the command line of its newest start") {
  CHECK(qemu_last_words("").empty());
  CHECK(qemu_last_words(start).empty());
  CHECK(qemu_last_words(start + "2026-11-21 02:17:45.200+0000: Domain id=1 is tainted: high-privileges\n"
                                "KVM internal error. Suberror: 1\n\n"
                                "2026-11-21 02:18:05.983+0000: shutting down, reason=crashed\n") ==
        "KVM internal error. Suberror: 1\n"
        "2026-11-21 02:18:05.983+0000: shutting down, reason=crashed");
  CHECK(qemu_last_words(start + "of an earlier start\n" + start + "of this one\n") == "of this one");
}

TEST_CASE("of many last words of QEMU the last five remain") {
  CHECK(qemu_last_words(start + "1\n2\n3\n4\n5\n6\n7\n") == "3\n4\n5\n6\n7");
}

TEST_CASE("a domain without a log has no last words") {
  CHECK(read_qemu_last_words("virtrain-no-such-domain").empty());
}

}  // namespace
}  // namespace virtrain::vmctl
