// Draws the charts of a pinprof page when they come into sight, and all of them for print.
"use strict";
(() => {
  const PRINTED = 680; // pixels; as wide as an upright page
  const CONFIG = { displayModeBar: false, responsive: true };
  const charts = [...document.querySelectorAll(".chart")];

  const draw = (chart) => {
    if (chart.dataset.drawn) return;
    chart.dataset.drawn = "true";
    const canvas = chart.querySelector(".canvas");
    try {
      const { data, layout } = JSON.parse(chart.querySelector("script").textContent);
      Plotly.newPlot(canvas, data, layout, CONFIG);
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
  const folded = () => document.querySelectorAll("details:not([open]):not(td details)"); // call stacks stay folded
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
