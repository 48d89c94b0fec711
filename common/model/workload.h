#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/enum_text.h"
#include "common/model/described.h"
#include "common/model/job.h"
#include "common/model/precision.h"

// Orders for a training job and facts about it: the words of scenarios, of the trainers' flags and of the
// database.
namespace virtrain {

VIRTRAIN_ENUM_CLASS(Backend, cpu, cuda)

/// How the CUDA trainer chooses among its levels of fusion: words of its flag --fusion, beside the levels'
/// names.
enum class FusionRule {
  auto_,       ///< times them and takes the fastest
  remembered,  ///< takes what an earlier run has found to be the fastest, and `highest` where none has
  highest,     ///< takes the first that runs, whatever its time
};
VIRTRAIN_DESCRIBE_ENUM(FusionRule, auto_, remembered, highest)

/// Trainable parameters of ResNet-50 with 1000 classes.
inline constexpr std::int64_t resnet50_parameters = 25'557'032;

/// Names of variables and their values.
using Variables = std::map<std::string, std::string>;

/// The job of each rank.
struct Workload {
  bool operator==(const Workload&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, model, "resnet50", .text = "Model that is trained", .key = "model",
                 .only_word = "resnet50", .guard = FactRule::must_be_equal,
                 .why = "another model is another workload");
  VIRTRAIN_FIELD(Backend, backend, Backend::cpu,
                 .text = "Trainer that computes on CPUs, or on GPUs with CUDA", .key = "backend",
                 .guard = FactRule::must_be_equal, .why = "another backend is another workload");
  VIRTRAIN_FIELD(Precision, precision, Precision::fp32,
                 .text = "Arithmetic of convolutions and matrix products; tf32 and fp16 need backend cuda",
                 .key = "precision", .flag = "precision", .guard = FactRule::must_be_equal,
                 .why = "another precision is another workload");
  VIRTRAIN_FIELD(std::int64_t, batch_size, 32, .text = "Images per rank and step", .key = "batch_size",
                 .flag = "batch_size", .least = 1, .most = 4096, .guard = FactRule::must_be_equal,
                 .why = "another batch size is another workload");
  VIRTRAIN_FIELD(std::int64_t, image_size, 224, .text = "Pixels of each side", .key = "image_size",
                 .flag = "image_size", .least = 32, .most = 1024, .guard = FactRule::must_be_equal,
                 .why = "another image size is another workload");
  VIRTRAIN_FIELD(std::int64_t, warmup_steps, 2, .text = "Steps before those that count",
                 .key = "warmup_steps", .flag = "num_warmup_batches", .least = 0, .most = 100'000);
  VIRTRAIN_FIELD(std::int64_t, steps, 10, .text = "Counted steps", .key = "steps", .flag = "num_batches",
                 .least = 1, .most = 1'000'000);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, later_steps, {},
                 .text =
                     "Steps after the counted ones, while a victim recovers from an aggressor; none of them "
                     "counts",
                 .flag = "num_later_batches", .least = 0, .most = 100'000, .absent = "none");
  VIRTRAIN_FIELD(std::int64_t, display_every, 1, .text = "Counted steps in one sample",
                 .key = "display_every", .flag = "display_every", .least = 1, .most = 1'000'000);
  VIRTRAIN_FIELD(std::int64_t, accumulate_steps, 1,
                 .text = "Batches whose gradients are added before the weights change",
                 .key = "accumulate_steps", .flag = "accumulate_steps", .least = 1, .most = 1024,
                 .guard = FactRule::must_be_equal, .why = "it decides how often gradients are sent");
  VIRTRAIN_FIELD(std::uint64_t, seed, 1, .text = "Seed of weights and images", .key = "seed", .flag = "seed",
                 .least = 0, .most = 2'147'483'647);
  VIRTRAIN_FIELD(double, learning_rate, 0.01,
                 .text = "Learning rate of SGD with momentum 0.9 and weight decay 1e-4",
                 .key = "learning_rate", .flag = "learning_rate", .least = 0, .most = 10,
                 .guard = FactRule::informative, .why = "it changes the loss, not the work of a step");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, bucket_mib, {},
                 .text = "Gradients that one all-reduce carries, in whole MiB", .key = "bucket",
                 .flag = "bucket_mib", .least = 1, .most = 1024, .unit = ValueUnit::mib,
                 .absent = "the trainer chooses, 25MiB", .example = "4MiB", .guard = FactRule::must_be_equal,
                 .why = "it decides in how many parts gradients are sent");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, threads, {}, .text = "Threads per rank", .key = "threads",
                 .flag = "num_threads", .least = 1, .most = 1024,
                 .absent = "the node's cores divided by its ranks", .example = "8");
  VIRTRAIN_FIELD(Variables, environment, {}, .text = "Environment variables of each rank", .key = "env",
                 .absent = "only those that virtrain sets", .example = R"({"NCCL_DEBUG": "INFO"})",
                 .guard = FactRule::must_be_equal, .why = "its variables steer libraries: NCCL, MPI, oneDNN");

  /// A command in place of the built-in trainer; its keys are the workload's own.
  std::optional<Job> job = {};

  /// Images of the counted steps of one rank.
  std::int64_t images_per_rank() const { return steps * batch_size * accumulate_steps; }
};

/// Why batch normalization has too little to work on: the maps of the last blocks are a 32nd of the image,
/// and one value has no variance. Empty where it has enough. `prefix` stands before each name: "--" of flags.
inline std::string normalization_refusal(const Workload& workload, const std::string& prefix = "") {
  const std::int64_t side = (workload.image_size + 31) / 32;
  if (workload.batch_size * side * side >= 2) { return ""; }
  const std::string batch = prefix + "batch_size";
  const std::string image = prefix + "image_size";
  return batch + " 1 at " + image + " " + std::to_string(workload.image_size) +
         " leaves one value to normalize in the last blocks (allowed: " + batch + " 2 or more, or " + image +
         " 33 or more)";
}

}  // namespace virtrain
