#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "harness/experiment/progress.h"

namespace virtrain::harness {

/// One line at the foot of a terminal, written over each second and whenever something happens. Logs stand
/// above it. Gone with the object.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const Progress& progress);

 private:
  void draw_each_second();

  std::mutex mutex_;
  std::condition_variable changed_;
  Progress progress_;
  bool is_new_ = false;  ///< not drawn yet
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace virtrain::harness
