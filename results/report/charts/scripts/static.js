// Runs in node behind the bundle: draws every chart of each of `pages` at every width of `widths`, one with lines of
// thousands of points at the last of them only, and answers with [{"<chart id>": ["<svg…>", …], …}, …].
async function drawPages(pages, widths) {
  const drawn = [];
  for (const page of pages) drawn.push(await drawPage(page, widths));
  return drawn;
}

async function drawPage(page, widths) {
  const pictures = {};
  for (const chart of page.charts) {
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
