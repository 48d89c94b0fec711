# The tests that need a GPU or ask cuDNN, built without the rest of the project for scripts/gpu-check and scripts/try-cuda12.
find_path(CATCH2_INCLUDE_DIR catch2/catch.hpp)
if(NOT VIRTRAIN_CUDA_FOUND OR NOT CATCH2_INCLUDE_DIR)
  message(STATUS "without the GPU's tests: they need the CUDA trainer and Catch2 2 (${CATCH2_INCLUDE_DIR})")
  return()
endif()
set(tests ${CMAKE_CURRENT_LIST_DIR}/../tests)
add_library(virtrain_gpu_tests OBJECT
  ${tests}/support/main.cpp ${tests}/workloads/resnet50/cuda/operation_reference.cpp ${tests}/workloads/resnet50/cuda/plain_convolution.cpp
  ${tests}/workloads/resnet50/cuda/step_interpreter.cpp ${tests}/workloads/resnet50/cuda/training_case.cpp)
virtrain_target_options(virtrain_gpu_tests)
target_include_directories(virtrain_gpu_tests SYSTEM PUBLIC ${CATCH2_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(virtrain_gpu_tests PUBLIC
  VIRTRAIN_BINARY_DIR="${CMAKE_BINARY_DIR}" VIRTRAIN_SOURCE_DIR="${CMAKE_CURRENT_LIST_DIR}/..")
target_link_libraries(virtrain_gpu_tests PUBLIC virtrain_resnet50_cuda)
foreach(name kernels_gpu cudnn_operations_gpu gpu_step cuda_trainer cudnn_engine)
  string(REGEX REPLACE "_?(gpu|cuda|cudnn)_?" "" program ${name})
  add_executable(workloads_cuda_${program}_test ${tests}/workloads/resnet50/cuda/${name}_test.cpp)
  virtrain_target_options(workloads_cuda_${program}_test)
  target_link_libraries(workloads_cuda_${program}_test PRIVATE virtrain_gpu_tests)
endforeach()
target_sources(workloads_cuda_kernels_test PRIVATE ${tests}/workloads/resnet50/cuda/norm_kernels_gpu_test.cpp)
