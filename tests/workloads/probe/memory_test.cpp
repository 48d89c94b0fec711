#include "workloads/probe/memory.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "common/error.h"
#include "common/files/new_file.h"
#include "tests/support/catch.h"
#include "workloads/common/processor.h"
#include "workloads/probe/compute.h"

using namespace virtrain;
using namespace virtrain::probe;

TEST_CASE("triad and copy do what they say, for any length") {
  for (const std::size_t elements : {1U, 7U, 1000U, 65537U}) {
    std::vector<double> a(elements, -1), b(elements, 2), c(elements, 1), d(elements, 0);
    triad(a, b, c, 3);
    CHECK(wrong_elements(a, 5) == 0);
    copy(d, a);
    CHECK(d == a);
  }
}

TEST_CASE("one wrong element is counted, rounding is not") {
  std::vector<double> values(1000, 5);
  values[999] = std::nextafter(5.0, 6.0);
  CHECK(wrong_elements(values, 5) == 0);
  values[0] = 5.0001;
  values[500] = std::nan("");
  CHECK(wrong_elements(values, 5) == 2);
}

TEST_CASE("bytes are counted as STREAM counts them") {
  const MemorySetting setting{1U << 20, 1U << 22, 3};
  const Figure triad_figure = measure_triad(setting);
  CHECK(triad_figure.name == "triad");
  CHECK(triad_figure.size_bytes == 1U << 20);
  CHECK(triad_figure.value == Approx(3.0 * (1U << 20) / triad_figure.seconds));
  CHECK(triad_figure.wrong == 0);
  const Figure copy_figure = measure_copy(setting);
  CHECK(copy_figure.value == Approx(2.0 * (1U << 20) / copy_figure.seconds));
  CHECK(copy_figure.wrong == 0);
  CHECK(least_array_bytes(32U << 20) == 128U << 20);
}

TEST_CASE("arrays that do not fit are refused before anything is allocated") {
  REQUIRE_THROWS_WITH(measure_triad({1ULL << 50, 0, 2}), virtrain::test::Contains("--bytes"));
}

TEST_CASE("last-level caches are counted once each") {
  const auto root = std::filesystem::temp_directory_path() / ("virtrain-cache-" + std::to_string(getpid()));
  const auto make = [&](int cpu, int index, const char* level, const char* size, const char* shared) {
    const auto folder = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "cache" /
                        ("index" + std::to_string(index));
    std::filesystem::create_directories(folder);
    write_file_atomically(folder / "level", level);
    write_file_atomically(folder / "size", size);
    write_file_atomically(folder / "shared_cpu_list", shared);
  };
  for (const int cpu : {0, 1, 2}) {
    make(cpu, 0, "1\n", "48K\n", std::to_string(cpu).c_str());
    make(cpu, 1, "3\n", "32768K\n", cpu < 2 ? "0-1\n" : "2-3\n");
  }
  CHECK(last_level_cache_bytes({0, 1}, root) == 32U << 20);
  CHECK(last_level_cache_bytes({0, 1, 2}, root) == 64U << 20);
  CHECK(last_level_cache_bytes({9}, root) == 32U << 20);  // the kernel says nothing
  std::filesystem::remove_all(root);
}

TEST_CASE("a product is checked against sums in double") {
  constexpr std::size_t n = 33;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (std::size_t i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i % 7) - 3;
    b[i] = static_cast<float>(i % 5) - 2;
  }
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::size_t k = 0; k < n; ++k) { sum += a[row * n + k] * b[k * n + column]; }
      c[row * n + column] = sum;
    }
  }
  CHECK(wrong_products(a, b, c, n, 1e-6) == 0);
  c[5 * n + 7] += 1;
  CHECK(wrong_products(a, b, c, n, 1e-6) == 1);
}

TEST_CASE("the library's products are right and their rate is 2 n^3 over the time") {
  for (const int n : {67, 160}) {  // odd, and large enough that only some elements are looked at
    const std::vector<Figure> found = measure_gemm(n, 3);
    REQUIRE_FALSE(found.empty());
    CHECK(found[0].data_type == "float");
    for (const Figure& figure : found) {
      CAPTURE(figure.data_type);
      CHECK(figure.wrong == 0);
      CHECK(figure.unit == "FLOP/s");
      CHECK(figure.value == Approx(2.0 * n * n * n / figure.seconds));
    }
  }
}
