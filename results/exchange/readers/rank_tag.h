#pragma once

#include <string_view>

namespace virtrain::results {

/// The line without the "[1,0]<stdout>:" that mpirun --tag-output (and horovodrun) put in front, the "0: "
/// of srun --label, or the "[default0]:" of torchrun --tee.
std::string_view without_rank_tag(std::string_view line);

}  // namespace virtrain::results
