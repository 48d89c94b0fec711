// Runs in node behind the bundle: draws every chart of `page` at every width of `widths` and prints
// {"<chart id>": ["<svg…>", …], …}.
async function drawAll(page, widths) {
  const pictures = {};
  for (const chart of page.charts) {
    pictures[chart.id] = [];
    for (const width of widths) {
      const view = virtrainCharts.viewOf(page, chart, width);
      // Vega counts clip paths from 0 in each picture, but they all stand in one page.
      const picture = await view.toSVG();
      pictures[chart.id].push(picture.replace(/(id="|url\(#)clip/g, `$1${chart.id}-${width}-clip`));
      view.finalize();
    }
  }
  return pictures;
}
