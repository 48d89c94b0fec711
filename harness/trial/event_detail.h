#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/model/described.h"
#include "common/model/virtualization.h"

namespace virtrain::harness {

/// Facts beside an event's message, each where it applies: the column `detail` has those that are there.
struct EventDetail {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, reason, {}, .text = "Why it happened");
  VIRTRAIN_FIELD(std::optional<std::string>, node, {}, .text = "Name of the node");
  VIRTRAIN_FIELD(std::optional<std::string>, arm, {}, .text = "Name of the arm");
  VIRTRAIN_FIELD(std::optional<std::string>, case_name, {}, .text = "Name of the case", .name = "case");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, count, {}, .text = "Devices or processes");
  VIRTRAIN_FIELD(std::optional<double>, seconds, {}, .text = "How long it took");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, graphs, {}, .text = "Graphs whose engines differ");
  VIRTRAIN_FIELD(std::optional<std::vector<std::string>>, failures, {},
                 .text = "Devices that could not be given back, and why");
  VIRTRAIN_FIELD(std::optional<std::vector<std::string>>, left, {}, .text = "What could not be removed");
  VIRTRAIN_FIELD(std::optional<std::string>, xml_that_mends_it, {},
                 .text = "XML with which the guest's devices would be as planned");
  VIRTRAIN_FIELD(std::optional<std::string>, hash, {}, .text = "Hash of the guest image");
  VIRTRAIN_FIELD(std::optional<std::string>, kernel, {}, .text = "Kernel of the guest image");
  VIRTRAIN_FIELD(std::optional<std::string>, boots, {}, .text = "Kernel and root that guests boot");
  VIRTRAIN_FIELD(std::optional<bool>, from_cache, {}, .text = "Whether the image was there already");
  VIRTRAIN_FIELD(std::optional<Virtualization>, virtualization, {}, .text = "What VMs run on");
};

}  // namespace virtrain::harness
