// Runs in node behind the bundle: draws every chart of `page` at every width of `widths` and prints
// {"<chart id>": ["<svg…>", …], …}.
async function drawAll(page, widths) {
  const pictures = {};
  for (const chart of page.charts) {
    pictures[chart.id] = [];
    for (const width of widths) {
      const view = virtrainCharts.viewOf(page, chart, width);
      pictures[chart.id].push(await view.toSVG());
      view.finalize();
    }
  }
  return pictures;
}
