#pragma once

struct CUstream_st;
struct CUgraphExec_st;

namespace virtrain::resnet50::cuda {

/// What this thread queues on a stream while this lives is noted instead of run. Left before end(), by an
/// exception, it is dropped: a thread that goes on capturing may not even free memory.
class StreamCapture {
 public:
  explicit StreamCapture(CUstream_st* stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  /// What was noted, to be launched as often as wanted. The caller destroys it.
  CUgraphExec_st* end();

 private:
  CUstream_st* stream_;  ///< null once it has ended
};

}  // namespace virtrain::resnet50::cuda
