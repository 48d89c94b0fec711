#include "harness/trial/run_context.h"

#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/described_json.h"

namespace virtrain::harness {

void RunContext::event(std::optional<std::int64_t> trial, const std::string& stage,
                       const std::string& message, const EventDetail& detail) {
  auto fields = message_json(detail);
  store.add_event(experiment, {trial, monotonic_ns(), iso8601(wall_ns()), stage, message,
                               fields.empty() ? nlohmann::json() : fields});
  fields["stage"] = stage;
  if (trial) { fields["trial"] = *trial; }
  log::debug(message, fields);
}

}  // namespace virtrain::harness
