# Reads runs (set, margin, alpha, case, arm, pair, value) and prints, one figure a line, what R's own functions make of each
# case: t.test for every interval and p, p.adjust for the family.
runs <- read.csv(commandArgs(trailingOnly = TRUE)[1], stringsAsFactors = FALSE)

verdict_of <- function(p_lower, p_upper, p_worse, p_better, alpha) {
  if (p_lower < alpha && p_upper < alpha) return("equivalent")
  if (p_better < alpha) return("better")
  if (p_worse < alpha) return("worse")
  if (p_lower < alpha) return("non_inferior")
  "inconclusive"
}

# test(alternative, mu, level): t.test on logarithms, of the pairs or of the two sides.
ratio_figures <- function(test, margin, alpha) {
  theta <- -log(1 - margin)
  plain <- test("two.sided", 0, 0.95)
  ci <- exp(plain$conf.int)
  ci_tost <- exp(test("two.sided", 0, 1 - 2 * alpha)$conf.int)
  p_lower <- test("greater", -theta, 0.95)$p.value
  p_upper <- test("less", theta, 0.95)$p.value
  p_worse <- test("less", -theta, 0.95)$p.value
  p_better <- test("greater", theta, 0.95)$p.value
  list(ci_low = ci[1], ci_high = ci[2], ci_tost_low = ci_tost[1], ci_tost_high = ci_tost[2], p_lower = p_lower,
       p_upper = p_upper, tost_p = max(p_lower, p_upper), p_diff = plain$p.value, p_worse = p_worse,
       verdict = verdict_of(p_lower, p_upper, p_worse, p_better, alpha), df = unname(plain$parameter))
}

paired_figures <- function(of_case, margin, alpha) {
  wide <- merge(of_case[of_case$arm == "bare_metal", c("pair", "value")], of_case[of_case$arm == "vm", c("pair", "value")],
                by = "pair", suffixes = c("_b", "_v"))
  complete <- wide[!is.na(wide$value_b) & !is.na(wide$value_v), ]
  d <- log(complete$value_v / complete$value_b)
  found <- ratio_figures(function(alternative, mu, level)
    t.test(d, alternative = alternative, mu = mu, conf.level = level), margin, alpha)
  found$df <- NULL
  c(list(n = nrow(complete), dropped_pairs = nrow(wide) - nrow(complete), ratio = exp(mean(d)), log_df = "NA",
         welch_p = "NA"), found)
}

unpaired_figures <- function(of_case, margin, alpha) {
  b <- of_case$value[of_case$arm == "bare_metal"]
  v <- of_case$value[of_case$arm == "vm"]
  found <- ratio_figures(function(alternative, mu, level)
    t.test(log(v), log(b), alternative = alternative, mu = mu, conf.level = level), margin, alpha)
  log_df <- found$df
  found$df <- NULL
  raw <- t.test(v, b)
  c(list(n_baseline = length(b), n_candidate = length(v), ratio = exp(mean(log(v)) - mean(log(b))), log_df = log_df,
         welch_t = unname(raw$statistic), welch_df = unname(raw$parameter), welch_p = raw$p.value,
         ratio_of_means = mean(v) / mean(b)), found)
}

for (set in unique(runs$set)) {
  of_set <- runs[runs$set == set, ]
  cases <- unique(of_set$case)
  found <- lapply(cases, function(name) {
    of_case <- of_set[of_set$case == name, ]
    margin <- of_case$margin[1]
    alpha <- of_case$alpha[1]
    if (any(!is.na(of_case$pair))) paired_figures(of_case, margin, alpha) else unpaired_figures(of_case, margin, alpha)
  })
  adjusted <- p.adjust(sapply(found, function(one) one$p_worse), method = "holm")
  for (i in seq_along(cases)) {
    one <- c(found[[i]], p_worse_holm = adjusted[i])
    for (name in names(one)) {
      value <- one[[name]]
      cat(set, cases[i], name, if (is.numeric(value)) format(value, digits = 17) else value, sep = ",")
      cat("\n")
    }
  }
}
