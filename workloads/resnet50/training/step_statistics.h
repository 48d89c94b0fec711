#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::resnet50 {

/// Quantile with linear interpolation between order statistics (numpy's default). Values must not be empty.
double quantile(std::vector<double> values, double share);

/// tf_cnn_benchmarks' table, byte for byte.
std::string tf_cnn_header();
/// One line after the step with these step times so far: mean speed, its standard error, jitter, loss.
std::string tf_cnn_line(const std::vector<double>& step_seconds, int images_per_step, double loss);
std::string tf_cnn_total(double images_per_second);

}  // namespace virtrain::resnet50
