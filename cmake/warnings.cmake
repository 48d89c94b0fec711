# Warnings for our own targets; VIRTRAIN_WERROR makes them errors: in the presets of developers, never in what users
# build, because another compiler, or only another order of inlining, finds what this one did not.
option(VIRTRAIN_WERROR "Treat warnings as errors" OFF)
set(VIRTRAIN_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")
option(VIRTRAIN_LIBFUZZER "Build the fuzzers of tests/fuzz with clang's libFuzzer" OFF)
if(VIRTRAIN_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link,address)
  add_link_options(-fsanitize=address)
endif()

# False alarms of g++ 12: -Wrestrict on std::string + (GCC bug 105651), -Wmismatched-new-delete at -O2 on coroutine
# frames that Asio allocates, -Wsubobject-linkage on coroutines' lambdas in sources that are compiled together. What
# another source of a unity build declares is no shadow either: presets of developers compile each source by itself.
function(virtrain_target_options target)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic $<$<NOT:$<BOOL:${CMAKE_UNITY_BUILD}>>:-Wshadow> -Wnon-virtual-dtor
    -Wconversion -Wno-sign-conversion -Wno-restrict -Wno-mismatched-new-delete -Wno-subobject-linkage>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${VIRTRAIN_WERROR}>>:-Werror>)
  if(VIRTRAIN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${VIRTRAIN_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${VIRTRAIN_SANITIZE})
  endif()
endfunction()
