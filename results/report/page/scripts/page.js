// Puts live charts in the place of the still ones: what the mouse is on is named, time axes zoom.
(() => {
  'use strict';
  const page = JSON.parse(document.getElementById('charts').textContent);
  const tip = document.getElementById('tip');

  function showTip(event, text) {
    if (!text) {
      tip.hidden = true;
      return;
    }
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
    const top = event.clientY + 14 + box.height > innerHeight ? event.clientY - 14 - box.height : event.clientY + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }

  /** Position of the last of the ascending `times` that is not after `time`, or of its nearer neighbour. */
  function nearest(times, time) {
    let low = 0;
    let high = times.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low + 1 < times.length && times[low + 1] - time < time - times[low] ? low + 1 : low;
  }

  const short = (value) => Number(value.toPrecision(4)).toLocaleString('en', { maximumFractionDigits: 3 });

  /** What the lines of a chart over time show at `time`: each tenant, and of several nodes of an arm their mean. */
  function readings(chart, time) {
    const groups = new Map();
    for (const line of chart.data.lines) {
      if (time < line.t[0] || time > line.t[line.t.length - 1]) continue;
      const group = `${line.panel}|${line.style}`;
      if (!groups.has(group)) groups.set(group, { line, values: [] });
      groups.get(group).values.push(line.v[nearest(line.t, time)]);
    }
    const words = [...groups.values()].map(({ line, values }) => {
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const of = values.length > 1 ? `${line.arm}, mean of ${values.length} nodes` : line.arm;
      return `${line.panel.slice(0, -line.unit.length - 2)} · ${of}: ${short(mean)} ${line.unit}`;
    });
    return [`${short(time)} s`, ...words].join('\n');
  }

  /** The window of `whole` that is `factor` times as wide as `window` and moved by `shift` of its width. */
  function changed(window, whole, factor, shift) {
    const width = Math.min((window[1] - window[0]) * factor, whole[1] - whole[0]);
    const middle = (window[0] + window[1]) / 2 + shift * (window[1] - window[0]);
    const start = Math.min(Math.max(middle - width / 2, whole[0]), whole[1] - width);
    return [start, start + width];
  }

  const steps = { in: [0.5, 0], out: [2, 0], earlier: [1, -0.5], later: [1, 0.5], whole: [Infinity, 0] };

  function addZoom(figure, view) {
    const bar = figure.querySelector('.zoom');
    const said = bar.querySelector('output');
    bar.hidden = false;
    bar.addEventListener('click', (event) => {
      const step = steps[event.target.dataset.step];
      if (step) view.signal('domain', changed(view.signal('domain'), view.signal('whole'), ...step)).runAsync();
    });
    view.addSignalListener('domain', (name, window) => {
      const whole = view.signal('whole');
      const share = (100 * (window[1] - window[0])) / (whole[1] - whole[0]);
      said.textContent = share > 99.5 ? '' : `${short(share)} % of the time is shown`;
    });
  }

  async function draw(chart) {
    const figure = document.getElementById(chart.id);
    const box = figure.querySelector('.live');
    const widthOf = () => figure.querySelector('.picture').clientWidth;
    const view = virtrainCharts.viewOf(page, chart, widthOf());
    let pointer = null;
    view.tooltip((handler, event, item, value) => {
      pointer = event;
      if (!chart.data.lines) showTip(event, value);
    });
    if (chart.data.lines) {
      view.addSignalListener('time', (name, time) => pointer && showTip(pointer, time === null ? '' : readings(chart, time)));
      box.addEventListener('mousemove', (event) => { pointer = event; }, true);
    }
    box.addEventListener('mouseleave', () => { tip.hidden = true; });
    figure.classList.add('is-live');
    await view.renderer('svg').hover().initialize(box).runAsync();
    if (figure.querySelector('.zoom')) addZoom(figure, view);
    const spec = page.specs[chart.spec];
    new ResizeObserver(() => {
      const width = virtrainCharts.plotWidth(spec, widthOf());
      if (widthOf() > 0 && width !== view.width()) view.width(width).runAsync();
    }).observe(figure.querySelector('.picture'));
  }

  // One chart at a time, so that the page answers in between. One that fails leaves its still picture in place.
  async function drawAll() {
    for (const chart of page.charts) {
      await new Promise((ready) => setTimeout(ready));
      try {
        await draw(chart);
      } catch (error) {
        document.getElementById(chart.id).classList.remove('is-live');
        console.error(error);
      }
    }
    document.documentElement.dataset.charts = 'drawn';
  }

  // On a narrow screen a row of a table becomes lines of "head value" (report.css); the heads come from here.
  function labelCells() {
    for (const table of document.querySelectorAll('table')) {
      const heads = [...table.querySelectorAll('thead th')].map((head) => head.textContent);
      for (const row of table.tBodies[0].rows) {
        [...row.cells].forEach((cell, i) => { if (cell.colSpan === 1 && cell.textContent) cell.dataset.head = heads[i]; });
      }
      table.classList.add('labelled');
    }
  }

  const narrow = matchMedia('(max-width: 46rem)');
  if (narrow.matches) labelCells();
  else narrow.addEventListener('change', labelCells, { once: true });
  drawAll();
})();
