// A CUDA driver (libcuda.so.1) that hangs whatever is asked of it, as the real one does with a broken GPU: so
// the watchdog is tested without one.

#include <unistd.h>

namespace {

[[noreturn]] int hang() {
  while (true) { pause(); }
}

}  // namespace

extern "C" {
int cuInit() {
  hang();
}
int cuDriverGetVersion() {
  hang();
}
int cuGetProcAddress() {
  hang();
}
int cuGetProcAddress_v2() {  // NOLINT(readability-identifier-naming): the driver's name of it
  hang();
}
}
