#include <vector>

#include "common/error.h"
#include "tests/support/catch.h"
#include "workloads/common/gpu/gpu_choice.h"

using namespace virtrain;

namespace {

/// Answers in turn, the last one again and again.
struct Uses {
  std::vector<GpuUse> answers;
  std::size_t asked = 0;

  void refuse() {
    refuse_occupied_gpu(
        "0000:01:00.0", [this] { return answers.at(std::min(asked++, answers.size() - 1)); }, [] {});
  }
};

}  // namespace

TEST_CASE("a GPU on which others compute is refused with their number and how busy they keep it") {
  Uses uses{{{3, 98}, {3, 61}, {3, 99}}};
  try {
    uses.refuse();
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::busy);
    CHECK_THAT(error.what(),
               virtrain::test::Contains("take the GPU 0000:01:00.0: it is occupied: 2 other processes "
                                        "keep it at least 61 % busy"));
  }
  CHECK(uses.asked == 6);
}

TEST_CASE("a GPU that is ours, idle, or whose use is not told is taken at once") {
  const std::vector<GpuUse> taken{{1, 98}, {0, 98}, {3, 0}, {3, 10}, {3, {}}, {{}, 98}, {}};
  for (const GpuUse& use : taken) {
    Uses uses{{use}};
    CHECK_NOTHROW(uses.refuse());
    CHECK(uses.asked == 1);
  }
}

TEST_CASE("the end of another process's work is awaited") {
  Uses uses{{{2, 98}, {2, 74}, {2, 3}}};
  CHECK_NOTHROW(uses.refuse());
  CHECK(uses.asked == 3);
  Uses gone{{{2, 98}, {1, 98}}};
  CHECK_NOTHROW(gone.refuse());
}

TEST_CASE("without NVML nothing is refused") {
  CHECK_NOTHROW(refuse_occupied_gpu("0000:99:00.0"));
}
