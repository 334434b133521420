// Draws the charts of a pinprof page when they come into sight, and all of them for print.
"use strict";
(() => {
  const PRINTED = 680; // pixels; as wide as an upright page
  const NEAR = "60px"; // from the window: a chart that near loads plotly
  const SOON = "400px"; // from the window: charts that near are drawn once plotly is loaded
  const CONFIG = { displayModeBar: false, responsive: true };
  const charts = [...document.querySelectorAll(".plotted")];

  // Sets the hover text of each column. Plotly sorts the cells of a heat map like the axis, but not their texts.
  const setHoverTexts = (series, columns, order) => {
    const texts = order.map((name) => columns[name]);
    series.customdata = series.z?.map(() => texts) ?? texts;
  };

  const choose = (canvas, { choices, columns }, button) => {
    const [choice, view] = button.dataset.view.split(",").map(Number);
    const [data, layout, series] = choices[choice][view];
    const order = layout["xaxis.categoryarray"];
    if (order && columns) canvas.data.filter(({ z }) => z).forEach((map) => setHoverTexts(map, columns, order));
    Plotly.update(canvas, data, layout, series);
    for (const other of button.parentElement.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  };

  // The first chart waits until nobody touches the page.
  const draw = async (chart) => {
    try {
      if (!window.Plotly) await plotly.atRest();
      paint(chart);
      watch(SOON);
    } catch (error) {
      chart.querySelector(".canvas").textContent = `The chart cannot be drawn: ${error.message}.`;
    }
  };

  const paint = (chart) => {
    if (chart.dataset.drawn) return;
    chart.dataset.drawn = "true";
    const canvas = chart.querySelector(".canvas");
    try {
      const content = JSON.parse(chart.querySelector("script").textContent);
      const { data, layout, columns, config } = content;
      if (columns) for (const series of data) setHoverTexts(series, columns, series.x);
      Plotly.newPlot(canvas, data, layout, { ...CONFIG, ...config });
      canvas.on("plotly_click", ({ points: [{ x, customdata: text }] }) => {
        chart.dispatchEvent(new CustomEvent("picked", { bubbles: true, detail: { x, text } }));
      });
      for (const button of chart.querySelectorAll("[data-view]")) {
        button.addEventListener("click", () => choose(canvas, content, button));
      }
    } catch (error) {
      canvas.textContent = `The chart cannot be drawn in this browser: ${error.message}`;
      console.error(error);
    }
  };

  // Draws charts when they come near the window: within NEAR until plotly is loaded, then within SOON.
  let [observer, margin] = [undefined, ""];
  const watch = (wanted) => {
    if (wanted === margin) return;
    observer?.disconnect();
    margin = wanted;
    observer = new IntersectionObserver(
      (entries, own) => {
        for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
          own.unobserve(target);
          draw(target);
        }
      },
      { rootMargin: margin },
    );
    for (const chart of charts.filter(({ dataset }) => !dataset.drawn)) observer.observe(chart);
  };
  watch(NEAR);

  const resized = (size) => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) Plotly.relayout(plot, size);
  };
  addEventListener("beforeprint", () => {
    charts.forEach(plotly.evaluated() ? paint : draw); // at once: paper does not wait
    resized({ width: PRINTED, autosize: false });
  });
  addEventListener("afterprint", () => resized({ width: null, autosize: true }));
})();
