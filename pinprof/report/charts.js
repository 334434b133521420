// Draws the charts of a pinprof page when they come into sight, and all of them for print.
"use strict";
(() => {
  const PRINTED = 680; // pixels; as wide as an upright page
  const CONFIG = { displayModeBar: false, responsive: true };
  const charts = [...document.querySelectorAll(".chart")];

  // What hovering says of each column. Plotly sorts the cells of a heat map as the axis is sorted, but not this.
  const tell = (series, columns, order) => {
    const texts = order.map((name) => columns[name]);
    series.customdata = series.z?.map(() => texts) ?? texts;
  };

  const choose = (canvas, { choices, columns }, button) => {
    const [choice, view] = button.dataset.view.split(",").map(Number);
    const [data, layout, series] = choices[choice][view];
    const order = layout["xaxis.categoryarray"];
    if (order && columns) canvas.data.filter(({ z }) => z).forEach((map) => tell(map, columns, order));
    Plotly.update(canvas, data, layout, series);
    for (const other of button.parentElement.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  };

  // At once where plotly is there: paper does not wait.
  const draw = (chart) => {
    if (window.Plotly) return paint(chart);
    return plotly().then(
      () => paint(chart),
      (error) => (chart.querySelector(".canvas").textContent = `The chart cannot be drawn: ${error.message}.`),
    );
  };

  const paint = (chart) => {
    if (chart.dataset.drawn) return;
    chart.dataset.drawn = "true";
    const canvas = chart.querySelector(".canvas");
    try {
      const content = JSON.parse(chart.querySelector("script").textContent);
      const { data, layout, columns } = content;
      if (columns) for (const series of data) tell(series, columns, series.x);
      Plotly.newPlot(canvas, data, layout, CONFIG);
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

  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        observer.unobserve(target);
        draw(target);
      }
    },
    { rootMargin: "400px" },
  );
  for (const chart of charts) observer.observe(chart);

  // On paper nothing can be opened, scrolled to or hovered over.
  const folded = () => document.querySelectorAll("details:not([open]):not(td details):not(.long)"); // call stacks and long tables stay folded
  const resized = (size) => {
    for (const plot of document.querySelectorAll(".js-plotly-plot")) Plotly.relayout(plot, size);
  };
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...folded()];
    for (const details of opened) details.open = true;
    for (const chart of charts) draw(chart);
    resized({ width: PRINTED, autosize: false });
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
    resized({ width: null, autosize: true });
  });
})();
