#include <cuda.h>

#include <atomic>

// Stands for libcuda.so.1 where there is no driver: the toolkit's link stub, with one call that is counted.
// An engine that cuDNN compiles at run time fails here in any case; whether its machine code was given to
// this call tells a compiler's failure from the stub's.

namespace {
std::atomic<int> images{0};
}

/// How often machine code was to be loaded.
extern "C" int virtrain_loaded_images() {
  return images;
}

extern "C" CUresult CUDAAPI cuLibraryLoadData(CUlibrary* /*library*/, const void* /*code*/,
                                              CUjit_option* /*jit_options*/, void** /*jit_values*/,
                                              unsigned /*jit_count*/, CUlibraryOption* /*options*/,
                                              void** /*values*/, unsigned /*count*/) {
  ++images;
  return CUDA_ERROR_STUB_LIBRARY;
}
