# cuDNN is asked about GPUs that are not here. It only offers engines that it compiles at run time where it can load
# libcuda.so.1, so the test's process, and no other, gets a library of that name from the folder ${stand_in}: one call of
# its own, and all others of the toolkit's link stub, a copy of which has another name inside (of the same length) so
# that both are loaded.
find_library(CUDA_DRIVER_STUB cuda HINTS ${CUDAToolkit_LIBRARY_DIR}/stubs NO_DEFAULT_PATH REQUIRED)
file(MAKE_DIRECTORY ${stand_in})
add_custom_command(OUTPUT ${stand_in}/libcudb.so.1 DEPENDS ${CUDA_DRIVER_STUB} VERBATIM
  COMMAND sh -c "sed 's/libcuda[.]so[.]1/libcudb.so.1/g' \"$1\" > \"$2\"" sh ${CUDA_DRIVER_STUB} ${stand_in}/libcudb.so.1)
add_library(virtrain_driver_stand_in SHARED ${CMAKE_CURRENT_LIST_DIR}/driver_stand_in.cpp ${stand_in}/libcudb.so.1)
virtrain_target_options(virtrain_driver_stand_in)
target_include_directories(virtrain_driver_stand_in SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_options(virtrain_driver_stand_in PRIVATE -Wl,--no-as-needed ${stand_in}/libcudb.so.1)
set_target_properties(virtrain_driver_stand_in PROPERTIES OUTPUT_NAME cuda VERSION 1 SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${stand_in})
