# virtrain_precompile(TARGET [HEADER...]): what most of a target's sources include of other people's, parsed once for
# all of them. Sources still include what they use. A launcher such as ccache finds more without.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
function(virtrain_precompile target)
  target_precompile_headers(${target} PRIVATE
    <nlohmann/json.hpp> <fmt/format.h> ${ARGN}
    <algorithm> <chrono> <filesystem> <functional> <map> <optional> <string> <vector>)
endfunction()
