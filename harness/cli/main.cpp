#include "harness/cli/cli.h"
#include "vmctl/api/local_host.h"

int main(int argc, char** argv) {
  return virtrain::harness::run_cli(argc, argv, virtrain::vmctl::local_host);
}
