#include <nlohmann/json.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "common/error.h"
#include "common/files/reading.h"
#include "tests/support/catch.h"
#include "workloads/resnet50/dump.h"

using namespace virtrain;
using namespace virtrain::resnet50;

TEST_CASE("a safetensors file is a length, a JSON header and raw data") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "virtrain-safetensors-test";
  SafetensorsWriter writer;
  writer.add("a", {1, 2}, std::vector<float>{1.5F, -2.0F});
  writer.add("labels", {1}, std::vector<std::int64_t>{7});
  writer.add("scalar", {}, std::vector<float>{3.0F});
  writer.write(path);
  const std::string file = read_file(path).value();
  std::filesystem::remove(path);

  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  CHECK(length % 8 == 0);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  CHECK(header["a"]["dtype"] == "F32");
  CHECK(header["a"]["shape"] == std::vector<int>{1, 2});
  CHECK(header["labels"]["dtype"] == "I64");
  CHECK(header["scalar"]["shape"].empty());
  REQUIRE(file.size() == 8 + length + 8 + 8 + 4);
  float values[2];
  std::memcpy(values, file.data() + 8 + length + header["a"]["data_offsets"][0].get<std::size_t>(), 8);
  CHECK(values[0] == 1.5F);
  CHECK(values[1] == -2.0F);
}

TEST_CASE("a path that cannot be written is an error that names it") {
  REQUIRE_THROWS_WITH(SafetensorsWriter().write("/no/such/folder/x"),
                      virtrain::test::Contains("/no/such/folder/x"));
}
