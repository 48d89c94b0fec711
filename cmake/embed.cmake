# virtrain_embed(TARGET NAMESPACE FILE...): compiles each FILE into TARGET as
#   std::string_view NAMESPACE::<file name with dots and dashes as underscores>
# declared in <last word of NAMESPACE>_embedded.h. SQL, schemas and templates stay files of their own.
function(virtrain_embed target namespace)
  string(REGEX REPLACE ".*::" "" topic ${namespace})
  set(header ${CMAKE_CURRENT_BINARY_DIR}/${topic}_embedded.h)
  set(text "#pragma once\n#include <string_view>\nnamespace ${namespace} {\n")
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME)
    string(REGEX REPLACE "[^A-Za-z0-9]" "_" symbol ${name})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_${symbol}.cpp)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],){24})" "\\1\n" bytes "${bytes}")
    file(CONFIGURE OUTPUT ${source} CONTENT
"#include \"${topic}_embedded.h\"
namespace ${namespace} {
static const unsigned char ${symbol}_bytes[] = {\n${bytes}0};
const std::string_view ${symbol}{reinterpret_cast<const char*>(${symbol}_bytes), sizeof(${symbol}_bytes) - 1};
}  // namespace ${namespace}
" @ONLY)
    target_sources(${target} PRIVATE ${source})
    string(APPEND text "extern const std::string_view ${symbol};\n")
  endforeach()
  string(APPEND text "}  // namespace ${namespace}\n")
  file(CONFIGURE OUTPUT ${header} CONTENT "${text}" @ONLY)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
