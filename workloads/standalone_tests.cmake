# The tests that need a GPU or ask cuDNN, built without the rest of the project for scripts/gpu-check and
# scripts/try-cuda12. Catch2 as tests/support/catch.h takes it: version 3, which has a library, before version 2, which
# has only headers.
find_path(CATCH2_INCLUDE_DIR NAMES catch2/catch_all.hpp catch2/catch.hpp)
set(catch2_found ${CATCH2_INCLUDE_DIR})
set(catch2_library "")
if(EXISTS "${CATCH2_INCLUDE_DIR}/catch2/catch_all.hpp")
  find_library(CATCH2_LIBRARY Catch2)
  set(catch2_found ${CATCH2_LIBRARY})
  set(catch2_library ${CATCH2_LIBRARY})
endif()
if(NOT VIRTRAIN_CUDA_FOUND OR NOT catch2_found)
  message(STATUS
    "without the GPU's tests: they need the CUDA trainer and Catch2 (found: ${CATCH2_INCLUDE_DIR} ${catch2_library})")
  return()
endif()
set(tests ${CMAKE_CURRENT_LIST_DIR}/../tests)
set(cuda_tests ${tests}/workloads/resnet50/cuda)
add_library(virtrain_gpu_tests OBJECT
  ${tests}/support/main.cpp ${cuda_tests}/interpreter/operation_reference.cpp
  ${cuda_tests}/interpreter/plain_convolution.cpp
  ${cuda_tests}/interpreter/plain_kernels.cpp ${cuda_tests}/interpreter/step_interpreter.cpp
  ${cuda_tests}/interpreter/training_case.cpp)
virtrain_target_options(virtrain_gpu_tests)
target_include_directories(virtrain_gpu_tests SYSTEM PUBLIC ${CATCH2_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(virtrain_gpu_tests PUBLIC
  VIRTRAIN_BINARY_DIR="${CMAKE_BINARY_DIR}" VIRTRAIN_SOURCE_DIR="${CMAKE_CURRENT_LIST_DIR}/..")
target_link_libraries(virtrain_gpu_tests PUBLIC virtrain_resnet50_cuda ${catch2_library})
foreach(file kernels/kernels_gpu engine/cudnn_operations_gpu run/gpu_step run/cuda_trainer engine/cudnn_engine)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "_?(gpu|cuda|cudnn)_?" "" program ${name})
  add_executable(workloads_cuda_${program}_test ${cuda_tests}/${file}_test.cpp)
  virtrain_target_options(workloads_cuda_${program}_test)
  target_link_libraries(workloads_cuda_${program}_test PRIVATE virtrain_gpu_tests)
endforeach()
target_sources(workloads_cuda_kernels_test PRIVATE ${cuda_tests}/kernels/norm_kernels_gpu_test.cpp)
# Not every toolkit brings the driver's link stub, which only this one test needs.
find_library(CUDA_DRIVER_STUB cuda HINTS ${CUDAToolkit_LIBRARY_DIR}/stubs NO_DEFAULT_PATH)
if(CUDA_DRIVER_STUB)
  set(stand_in ${CMAKE_BINARY_DIR}/driver-stand-in)
  include(${cuda_tests}/engine/driver_stand_in.cmake)
  add_dependencies(workloads_cuda_engine_test virtrain_driver_stand_in)
endif()
