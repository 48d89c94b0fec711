// Runs in node behind the bundle: draws every chart of each of `pages` at every width of `widths`, one with lines of
// thousands of points at the last of them only, and answers with [{"<chart id>": ["<svg…>", …], …}, …].
async function drawPages(pages, widths) {
  const drawn = [];
  for (const page of pages) drawn.push(await drawPage(page, widths));
  return drawn;
}

/** As many points of a line as a still picture shows: of each stretch the lowest and the highest. */
function thinned(line, most) {
  if (line.t.length <= most) return line;
  const stretch = Math.ceil((2 * line.t.length) / most);
  const kept = [];
  for (let start = 0; start < line.t.length; start += stretch) {
    let low = start;
    let high = start;
    for (let i = start; i < Math.min(start + stretch, line.t.length); ++i) {
      if (line.v[i] < line.v[low]) low = i;
      if (line.v[i] > line.v[high]) high = i;
    }
    kept.push(Math.min(low, high), Math.max(low, high));
  }
  return { ...line, t: kept.map((i) => line.t[i]), v: kept.map((i) => line.v[i]) };
}

function asStill(chart) {
  const { lines } = chart.data;
  if (!lines) return chart;
  const most = Math.max(60, Math.floor(2000 / lines.length));
  return { ...chart, data: { ...chart.data, lines: lines.map((line) => thinned(line, most)) } };
}

async function drawPage(page, widths) {
  const pictures = {};
  for (const chart of page.charts.map(asStill)) {
    pictures[chart.id] = [];
    // One view for all widths: making it, and its data, takes longer than drawing.
    const view = virtrainCharts.viewOf(page, chart, widths[0], { compiled: true });
    for (const width of chart.data.lines ? widths.slice(-1) : widths) {
      // Vega counts clip paths on in each picture, but they all stand in one page.
      const picture = await view.width(virtrainCharts.plotWidth(page.specs[chart.spec], width)).toSVG();
      pictures[chart.id].push(picture.replace(/(id="|url\(#)clip/g, `$1${chart.id}-${width}-clip`));
    }
    view.finalize();
  }
  return pictures;
}
