// virtrain-canary VERB: the tool of `virtrain isolate --security` in a node. It plants canaries, and looks
// for those of others.
//
//   search   files, disks and device memory for canaries
//   memory   says where the memory of PCI functions is: disks of an NVMe controller, memory regions, GPUs
//   peer     has a device read addresses, and looks for canaries in what it brings
//   functions  says which PCI functions it sees, and whose memory regions it may write to
//   fill     disks and device memory with a canary
//   listen   goes to the background and greets whoever connects with a canary
//   reach    tries addresses and ports, and listens for canaries that come by themselves

#include "workloads/canary/program.h"

int main(int argc, char** argv) {
  return virtrain::canary::run_canary(argc, argv);
}
