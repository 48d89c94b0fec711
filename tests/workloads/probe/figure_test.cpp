#include "workloads/probe/figure.h"

#include <sstream>

#include "tests/support/catch.h"
#include "workloads/probe/gpu.h"

using namespace virtrain::probe;

namespace {

Figure figure(const std::string& name, const std::string& where) {
  Figure made;
  made.name = name;
  made.where = where;
  made.data_type = "byte";
  made.unit = "B/s";
  return made;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) { lines.push_back(line); }
  return lines;
}

}  // namespace

TEST_CASE("lines say where, and their columns stand under the heading however long they are") {
  Table table;
  const auto lines = lines_of(
      table.lines({figure("peer_copy", peer_words(0, 1, true)), figure("peer_copy", peer_words(1, 0, false)),
                   figure("convolutions_backward_weights", "CPU")}));
  REQUIRE(lines.size() == 4);
  const std::size_t where = lines[0].find("where");
  CHECK(lines[0].starts_with("probe "));
  CHECK(lines[1].substr(where).starts_with("GPU 0->1 direct "));
  CHECK(lines[2].substr(where).starts_with("GPU 1->0 through the host "));
  CHECK(lines[3].substr(where).starts_with("CPU "));
  for (const std::string& line : lines) { CHECK(line.size() == lines[0].size()); }
}

TEST_CASE("a heading comes again where columns get wider, and else not") {
  Table table;
  CHECK(lines_of(table.lines({figure("triad", "CPU")})).size() == 2);
  CHECK(lines_of(table.lines({figure("memory_copy", "GPU 0")})).size() == 1);
  const auto wider = lines_of(table.lines({figure("host_to_device_pageable", "GPU 0")}));
  REQUIRE(wider.size() == 2);
  CHECK(wider[0].starts_with("probe "));
  CHECK(lines_of(table.lines({figure("triad", "CPU")}))[0].size() == wider[1].size());
  CHECK(table.lines({}).empty());
}
