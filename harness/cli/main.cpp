#include "harness/cli/cli.h"
#include "harness/hosts/host_client.h"

int main(int argc, char** argv) {
  return virtrain::harness::run_cli(argc, argv, virtrain::harness::local_host);
}
