// The entry of the bundle: as much of Vega as the specifications of charts/ need, and how a chart of the report becomes
// a view. The same code draws in the page and, at the time the report is written, in node.
import { extend } from 'vega-util';
import { transforms } from 'vega-dataflow';
import * as dataTransforms from 'vega-transforms';
import * as viewTransforms from 'vega-view-transforms';
import * as encoders from 'vega-encode';
import { View } from 'vega-view';
import { parse } from 'vega-parser';
import { expressionFunction } from 'vega-functions';
import { expressionInterpreter } from 'vega-interpreter';

extend(transforms, dataTransforms, viewTransforms, encoders);

/**
 * `lineShape(times, values)` of an expression: a line through these points by the scales t and v, to a hundredth of a
 * pixel. One item a line, where Vega's own mark is an item a point in a group a line.
 */
function lineShape(times, values) {
  const { t, v } = this.context.scales;
  const pixels = (number) => Math.round(number * 100) / 100;
  const points = times.map((time, i) => [pixels(t.value(time)), pixels(v.value(values[i]))]);
  let context = null;
  const shape = () => {
    if (!context) return 'M' + points.join('L') + (points.length === 1 ? 'Z' : '');
    points.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  };
  shape.context = (given) => ((context = given), shape);
  return shape;
}

expressionFunction('lineShape', lineShape, (name, parameters, scope, dependencies) => {
  for (const scale of ['t', 'v']) dependencies[`%${scale}`] = scope.scaleRef(scale);
});

/** What Vega made of a specification, by what of it a chart changes: most of a small chart's time goes into that. */
const runtimes = new Map();

function runtimeOf(page, chart, compiled) {
  const given = Object.keys(chart.signals).sort();
  const key = JSON.stringify([chart.spec, given, chart.scales, compiled]);
  if (!runtimes.has(key)) {
    const spec = JSON.parse(JSON.stringify(page.specs[chart.spec]));
    for (const signal of spec.signals) if (given.includes(signal.name)) delete signal.update;
    for (const scale of spec.scales ?? []) if (scale.name in chart.scales) scale.type = chart.scales[scale.name];
    runtimes.set(key, parse(spec, page.theme, { ast: !compiled }));
  }
  return runtimes.get(key);
}

/**
 * The view of `chart` {spec, data, signals, scales}, `width` pixels wide with its margins; not yet drawn. Its
 * expressions are interpreted, because the page's security policy forbids eval; `compiled` ones are faster, for node.
 */
export function viewOf(page, chart, width, { compiled = false } = {}) {
  const how = compiled ? {} : { expr: expressionInterpreter };
  const view = new View(runtimeOf(page, chart, compiled), { ...how, renderer: 'none', tooltip: () => {} });
  const spec = page.specs[chart.spec];
  for (const set of spec.data) if (set.name in chart.data) view.data(set.name, chart.data[set.name]);
  for (const signal of spec.signals) if (signal.name in chart.signals) view.signal(signal.name, chart.signals[signal.name]);
  return view.width(plotWidth(spec, width));
}

/** Width of the plot inside a picture of `width` pixels. */
export function plotWidth(spec, width) {
  return Math.max(80, width - spec.padding.left - spec.padding.right);
}

globalThis.virtrainCharts = { viewOf, plotWidth };
