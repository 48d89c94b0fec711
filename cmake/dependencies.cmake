# Every library comes from Debian (scripts/packages.txt); nothing is downloaded here.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)  # headers only: Asio, Math, Process
find_package(nlohmann_json 3.10 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(pugixml REQUIRED)
find_package(SQLiteCpp REQUIRED)
find_package(LibArchive REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
# Debian's dnnl-config.cmake asks for an OpenCL that libdnnl-dev does not bring, so look for the library itself.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_package(MPI REQUIRED COMPONENTS CXX)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(LIBVIRT REQUIRED IMPORTED_TARGET libvirt>=9.0)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(KAINJOW_MUSTACHE_INCLUDE_DIR kainjow/mustache.hpp REQUIRED)
find_program(ESBUILD esbuild REQUIRED)  # makes one script of the parts of Vega that the report needs

# Third-party headers are system headers: our warnings are for our code.
add_library(virtrain_boost INTERFACE)
target_include_directories(virtrain_boost SYSTEM INTERFACE ${Boost_INCLUDE_DIRS})
target_compile_definitions(virtrain_boost INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ALLOW_DEPRECATED_HEADERS BOOST_ASIO_HAS_STD_INVOKE_RESULT
  BOOST_PROCESS_USE_STD_FS)
target_link_libraries(virtrain_boost INTERFACE Threads::Threads)
