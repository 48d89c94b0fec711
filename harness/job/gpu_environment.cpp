#include "harness/job/gpu_environment.h"

#include <map>

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

}  // namespace virtrain::harness
