# The workloads without the rest of the project, for any machine with a compiler. Headers needed: CLI11, fmt and
# nlohmann_json, from the system or from a folder of their own (-DCMAKE_INCLUDE_PATH=FOLDER). Used if found: oneDNN
# (GEMM rate, CPU trainer). -DVIRTRAIN_MPI=OFF leaves MPI out: then nothing runs on more than one rank.
option(VIRTRAIN_MPI "Ranks by MPI" ON)
option(VIRTRAIN_STANDALONE_TESTS "The tests that need a GPU, where Catch2 is found" OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
include(GNUInstallDirs)
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/warnings.cmake)

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../CMakeLists.txt version REGEX "^project\\(virtrain VERSION")
string(REGEX REPLACE ".*VERSION ([0-9.]+).*" "\\1" virtrain_VERSION "${version}")

find_package(Threads REQUIRED)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
find_path(NLOHMANN_JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
if(VIRTRAIN_MPI)
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "no MPI found; install one (Debian: libopenmpi-dev) or say -DVIRTRAIN_MPI=OFF")
  endif()
endif()

include(${CMAKE_CURRENT_LIST_DIR}/resnet50/cuda/toolkit.cmake)

add_library(fmt::fmt INTERFACE IMPORTED)
set_target_properties(fmt::fmt PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${FMT_INCLUDE_DIR} INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
set_target_properties(nlohmann_json::nlohmann_json PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${NLOHMANN_JSON_INCLUDE_DIR})
add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/../common common-base)
