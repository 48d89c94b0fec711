# Warnings for our own targets; VIRTRAIN_WERROR makes them errors (presets and CI do).
option(VIRTRAIN_WERROR "Treat warnings as errors" OFF)
set(VIRTRAIN_SANITIZE "" CACHE STRING "Value for -fsanitize=, empty for none")

# -Wrestrict: false alarms on std::string + in g++ 12 (GCC bug 105651).
function(virtrain_target_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wconversion -Wno-sign-conversion -Wno-restrict>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${VIRTRAIN_WERROR}>>:-Werror>)
  if(VIRTRAIN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${VIRTRAIN_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${VIRTRAIN_SANITIZE})
  endif()
endfunction()
