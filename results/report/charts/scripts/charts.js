// The entry of the bundle: as much of Vega as the specifications of charts/ need, and how a chart of the report becomes
// a view. The same code draws in the page and, at the time the report is written, in node.
import { extend } from 'vega-util';
import { transforms } from 'vega-dataflow';
import * as dataTransforms from 'vega-transforms';
import * as viewTransforms from 'vega-view-transforms';
import * as encoders from 'vega-encode';
import { View } from 'vega-view';
import { parse } from 'vega-parser';
import { expressionInterpreter } from 'vega-interpreter';

extend(transforms, dataTransforms, viewTransforms, encoders);

/** The view of `chart` {spec, data, signals, scales}, `width` pixels wide with its margins; not yet drawn. */
export function viewOf(page, chart, width) {
  const spec = JSON.parse(JSON.stringify(page.specs[chart.spec]));
  for (const set of spec.data) if (set.name in chart.data) set.values = chart.data[set.name];
  for (const signal of spec.signals) {
    if (!(signal.name in chart.signals)) continue;
    signal.value = chart.signals[signal.name];
    delete signal.update;
  }
  for (const scale of spec.scales ?? []) if (scale.name in chart.scales) scale.type = chart.scales[scale.name];
  spec.width = plotWidth(spec, width);
  // Expressions are interpreted, not compiled: the page's security policy forbids eval.
  const runtime = parse(spec, page.theme, { ast: true });
  return new View(runtime, { expr: expressionInterpreter, renderer: 'none', tooltip: () => {} });
}

/** Width of the plot inside a picture of `width` pixels. */
export function plotWidth(spec, width) {
  return Math.max(80, width - spec.padding.left - spec.padding.right);
}

globalThis.virtrainCharts = { viewOf, plotWidth };
