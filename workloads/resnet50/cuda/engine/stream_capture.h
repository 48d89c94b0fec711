#pragma once

struct CUstream_st;
struct CUgraphExec_st;

namespace virtrain::resnet50::cuda {

/// While this lives, CUDA records the work that this thread queues on a stream, and does not run it. Left
/// before end(), by an exception, the work is dropped: a thread that goes on capturing may not even free
/// memory.
class StreamCapture {
 public:
  explicit StreamCapture(CUstream_st* stream);
  ~StreamCapture();
  StreamCapture(const StreamCapture&) = delete;
  StreamCapture& operator=(const StreamCapture&) = delete;
  /// Returns the recorded work, to be launched as often as wanted. The caller destroys it.
  CUgraphExec_st* end();

 private:
  CUstream_st* stream_;  ///< null once it has ended
};

}  // namespace virtrain::resnet50::cuda
