#include "vmctl/guest/archives.h"

#include "common/system/subprocess.h"
#include "tests/support/catch.h"

namespace virtrain::vmctl {
namespace {

TEST_CASE("a newc archive is one that cpio reads") {
  CommandOptions options;
  options.input = newc_archive("init", "#!/bin/sh\necho odd\n");
  CHECK(run_checked({"cpio", "-t"}, options).out == "init\n");
  CHECK(run_checked({"cpio", "-i", "--to-stdout", "init"}, options).out == "#!/bin/sh\necho odd\n");
  CHECK(run_checked({"cpio", "-tv"}, options).out.substr(0, 10) == "-rwxr-xr-x");
}

}  // namespace
}  // namespace virtrain::vmctl
