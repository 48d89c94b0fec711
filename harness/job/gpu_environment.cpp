#include "harness/job/gpu_environment.h"

#include <map>
#include <set>

#include "common/error.h"
#include "common/text/text.h"
#include "vmctl/api/device.h"

namespace virtrain::harness {
std::vector<std::string> gpu_uuid_query() {
  return {"nvidia-smi", "--query-gpu=pci.bus_id,uuid", "--format=csv,noheader"};
}

std::string visible_gpus(const std::string& answer, const std::vector<std::string>& addresses) {
  std::map<std::string, std::string> uuids;  // by address
  for (const auto& line : split(answer, '\n')) {
    const auto fields = split(line, ',');
    if (fields.size() == 2) { uuids[vmctl::kernel_address(std::string(trim(fields[0])))] = trim(fields[1]); }
  }
  std::vector<std::string> visible;
  for (const auto& address : addresses) {
    const auto found = uuids.find(address);
    if (found == uuids.end()) {
      throw Error("find the GPU " + address, ErrorCode::trial_failed,
                  "nvidia-smi does not list it (is it on the nvidia driver again?)");
    }
    visible.push_back(found->second);
  }
  return join(visible, ",");
}

std::string share_of_gpus(const std::string& visible, std::int64_t which, std::int64_t nodes) {
  const auto all = split(visible, ',');
  const auto each = std::ssize(all) / nodes;
  const auto first = all.begin() + which * each;
  return join({first, first + each}, ",");
}

std::vector<std::string> rdma_name_query(const std::vector<std::string>& addresses) {
  std::vector<std::string> query{"find"};
  for (const auto& address : addresses) {
    query.push_back("/sys/bus/pci/devices/" + address + "/infiniband");
  }
  query.insert(query.end(), {"-mindepth", "1", "-maxdepth", "1", "-printf", "%f\\n"});
  return query;
}

std::string usable_adapters(const std::string& answer) {
  std::set<std::string> names;
  for (const auto& line : split(answer, '\n')) {
    if (!line.empty()) { names.insert(line); }
  }
  if (names.empty()) {
    throw Error("find the RDMA devices of the adapters", ErrorCode::trial_failed,
                "they have none (is mlx5_ib, or the adapter's other driver, loaded on the host?)");
  }
  return "=" + join({names.begin(), names.end()}, ",");
}

}  // namespace virtrain::harness
